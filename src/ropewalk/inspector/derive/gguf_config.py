"""GGUF metadata to the same settings that a config.json gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ropewalk.errors import CheckpointError
from ropewalk.inspector.derive.settings import PER_LAYER, Settings, require_count, require_counts
from ropewalk.inspector.records import Fact, SkippedArray
from ropewalk.limits import MAX_LAYERS

FILE = "GGUF metadata"

# Canonical name: the key below ``<arch>.`` (gguf-py constants.py, llama.cpp b11434).
KEYS: dict[str, str] = {
    "num_hidden_layers": "block_count",
    "mtp_layers": "nextn_predict_layers",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "vocab_size": "vocab_size",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "v_head_dim": "attention.value_length",
    "swa_head_dim": "attention.key_length_swa",
    "swa_v_head_dim": "attention.value_length_swa",
    "kv_lora_rank": "attention.kv_lora_rank",
    "q_lora_rank": "attention.q_lora_rank",
    "index_head_dim": "attention.indexer.key_length",
    "num_kv_shared_layers": "attention.shared_kv_layers",
    "max_position_embeddings": "context_length",
    "sliding_window": "attention.sliding_window",
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "num_shared_experts": "expert_shared_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    "ssm_conv_kernel": "ssm.conv_kernel",
    "ssm_inner_size": "ssm.inner_size",
    "ssm_state_size": "ssm.state_size",
    "ssm_num_groups": "ssm.group_count",
    "conv_l_cache": "shortconv.l_cache",
}


def read_gguf(metadata: Mapping[str, Any]) -> Settings:
    """Settings of a GGUF file's key-value section. Raises :class:`CheckpointError`."""
    arch = metadata.get("general.architecture")
    if metadata.get("general.type") == "imatrix":
        raise CheckpointError(
            "an importance matrix (general.type is imatrix), which llama-quantize reads: no model",
            code="imatrix_only",
            where={"field": "general.type", "value": "imatrix"},
        )
    if not isinstance(arch, str) or not arch:
        raise CheckpointError(
            "the GGUF file states no general.architecture",
            code="gguf_malformed",
            where={"field": "general.architecture"},
        )
    block = {
        key.removeprefix(f"{arch}."): value for key, value in metadata.items() if key.startswith(f"{arch}.")
    }
    facts = {
        name: Fact(_checked(block[key], f"{arch}.{key}", name), "gguf", f"{arch}.{key}")
        for name, key in KEYS.items()
        if key in block
    }
    if arch == "t5":
        _read_t5(block, facts)
    _set_apart_mtp(facts)
    _name_global_heads(facts)
    _read_vocabulary(metadata, facts)
    _read_latent(block, arch, facts)
    _read_state_heads(block, arch, facts)
    return Settings(
        format="gguf",
        model_type=arch,
        architecture=arch,
        text_config_key=None,
        block=block,
        outer=metadata,
        facts=facts,
    )


def _checked(value: Any, key: str, name: str) -> Any:
    """A count, or one per layer; a list of equal counts is one count."""
    if isinstance(value, SkippedArray):
        raise CheckpointError(
            f"{FILE}: {key} lists {value.length} values, more than any model has layers",
            code="config_invalid",
            where={"field": key},
        )
    if isinstance(value, list) and name in PER_LAYER:
        counts = require_counts(value, field_name=key, file=FILE)
        return counts[0] if len(set(counts)) == 1 else counts
    if name == "max_position_embeddings" and value == 0:
        return None
    return require_count(
        value, field_name=key, file=FILE, limit=MAX_LAYERS if name == "num_hidden_layers" else 2**40
    )


def _set_apart_mtp(facts: dict[str, Fact]) -> None:
    """``block_count`` counts the multi-token-prediction blocks as well (llama-model.cpp:1327)."""
    blocks, mtp = facts.get("num_hidden_layers"), facts.get("mtp_layers")
    if blocks and mtp and isinstance(mtp.value, int) and 0 < mtp.value < blocks.value:
        detail = f"{blocks.detail} - {mtp.detail}"
        facts["num_hidden_layers"] = Fact(blocks.value - mtp.value, "gguf", detail)


def _read_t5(block: Mapping[str, Any], facts: dict[str, Fact]) -> None:
    """``block_count`` is the encoder's where the decoder has a count of its own (t5.cpp)."""
    facts["is_encoder_decoder"] = Fact(True, "gguf", "general.architecture")
    if "num_hidden_layers" in facts:
        facts["encoder_layers"] = facts["num_hidden_layers"]
    if "decoder_block_count" in block:
        key = "t5.decoder_block_count"
        count = require_count(block["decoder_block_count"], field_name=key, file=FILE, limit=MAX_LAYERS)
        facts["num_hidden_layers"] = Fact(count, "gguf", key)


def _name_global_heads(facts: dict[str, Fact]) -> None:
    """Gemma 4: GGUF calls the size of the full layers ``key_length``, the config ``global_head_dim``."""
    full, sliding = facts.get("head_dim"), facts.get("swa_head_dim")
    if full is None or sliding is None or full.value == sliding.value:
        return
    facts["global_head_dim"], facts["head_dim"] = full, sliding
    values = facts.pop("swa_v_head_dim", None)
    facts.pop("v_head_dim", None)
    del facts["swa_head_dim"]
    if values is not None:
        facts["v_head_dim"] = values


def _read_vocabulary(metadata: Mapping[str, Any], facts: dict[str, Fact]) -> None:
    tokens = metadata.get("tokenizer.ggml.tokens")
    count = tokens.length if isinstance(tokens, SkippedArray) else 0
    if isinstance(tokens, list):
        count = len(tokens)
    if "vocab_size" not in facts and count:
        facts["vocab_size"] = Fact(count, "gguf", "tokenizer.ggml.tokens")


def _read_latent(block: Mapping[str, Any], arch: str, facts: dict[str, Fact]) -> None:
    """Head sizes of latent attention after up-projection; the plain lengths are then those of the cache."""
    keys, values = block.get("attention.key_length_mla"), block.get("attention.value_length_mla")
    rope = block.get("rope.dimension_count")
    if "kv_lora_rank" not in facts or not isinstance(rope, int):
        return
    facts["qk_rope_head_dim"] = Fact(rope, "gguf", f"{arch}.rope.dimension_count")
    size = (
        keys if isinstance(keys, int) and keys else facts["head_dim"].value if "head_dim" in facts else None
    )
    if isinstance(size, int) and size > rope:
        facts["qk_nope_head_dim"] = Fact(size - rope, "gguf", f"{arch}.attention.key_length_mla")
    if isinstance(values, int) and values:
        facts["v_head_dim"] = Fact(values, "gguf", f"{arch}.attention.value_length_mla")


def _read_state_heads(block: Mapping[str, Any], arch: str, facts: dict[str, Fact]) -> None:
    """``time_step_rank`` is the number of heads where there are groups (Mamba 2, delta nets)."""
    groups, heads = block.get("ssm.group_count"), block.get("ssm.time_step_rank")
    if isinstance(groups, int) and groups and isinstance(heads, int) and heads:
        facts["ssm_num_heads"] = Fact(heads, "gguf", f"{arch}.ssm.time_step_rank")
    size = block.get("kda.head_dim")
    if isinstance(size, int):
        facts["ssm_head_dim"] = Fact(size, "gguf", f"{arch}.kda.head_dim")
