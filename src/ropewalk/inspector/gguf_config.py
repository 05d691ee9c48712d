"""GGUF metadata to the same settings that a config.json gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ropewalk.inspector.records import Fact
from ropewalk.inspector.settings import Settings, require_count

# Canonical name: the key below ``<arch>.``
KEYS: dict[str, str] = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "vocab_size": "vocab_size",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "v_head_dim": "attention.value_length",
    "max_position_embeddings": "context_length",
    "sliding_window": "attention.sliding_window",
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "num_shared_experts": "expert_shared_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "mtp_layers": "nextn_predict_layers",
    "kv_lora_rank": "attention.kv_lora_rank",
    "q_lora_rank": "attention.q_lora_rank",
}


def read_gguf(metadata: Mapping[str, Any], *, file: str = "GGUF") -> Settings:
    """Settings of a GGUF file's key-value section. Raises :class:`CheckpointError`."""
    arch = metadata.get("general.architecture")
    prefix = f"{arch}."
    block = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    facts: dict[str, Fact] = {}
    for name, key in KEYS.items():
        value = block.get(key)
        if isinstance(value, list):
            facts[name] = Fact(
                [require_count(v, field_name=key, file=file) for v in value], "gguf", prefix + key
            )
        elif value is not None:
            facts[name] = Fact(require_count(value, field_name=key, file=file), "gguf", prefix + key)
    if "rope.freq_base" in block:
        facts["rope_theta"] = Fact(block["rope.freq_base"], "gguf", prefix + "rope.freq_base")
    return Settings(
        model_type=arch if isinstance(arch, str) else None,
        architecture=arch if isinstance(arch, str) else None,
        text_config_key=None,
        block=block,
        outer=metadata,
        facts=facts,
    )
