"""config.json to settings: finds the language model's block and reads it through one alias table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ropewalk.errors import CheckpointError
from ropewalk.inspector.records import Fact
from ropewalk.inspector.settings import MAX_LAYERS, Settings, require_count

FILE = "config.json"

# Where composite models keep the language model, outermost first.
NESTING_KEYS = (
    "text_config",
    "language_config",
    "llm_config",
    "language_model_config",
    "text_model_config",
    "thinker_config",
    "decoder",
    "generator",
)

# Canonical name: the keys that mean it, in order of preference. A dot enters a nested block. An
# encoder-decoder states both halves; the decoder's keys come first, since it is what holds a cache.
ALIASES: dict[str, tuple[str, ...]] = {
    "num_hidden_layers": (
        "decoder_layers", "num_decoder_layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers",
    ),
    "hidden_size": ("hidden_size", "d_model", "n_embd", "dim", "model_dim"),
    "intermediate_size": (
        "decoder_ffn_dim", "intermediate_size", "ffn_dim", "n_inner", "d_ff", "ffn_hidden_size",
    ),
    "vocab_size": ("vocab_size", "padded_vocab_size", "embedding_size"),
    "num_attention_heads": (
        "decoder_attention_heads", "num_attention_heads", "n_head", "n_heads", "num_heads",
        "num_query_heads",
    ),
    "num_key_value_heads": (
        "num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "multi_query_group_num",
        "attn_config.kv_n_heads",
    ),
    "head_dim": ("head_dim", "attention_head_dim", "d_kv", "kv_channels", "head_size"),
    "v_head_dim": ("v_head_dim",),
    "qk_nope_head_dim": ("qk_nope_head_dim",),
    "qk_rope_head_dim": ("qk_rope_head_dim",),
    "kv_lora_rank": ("kv_lora_rank",),
    "q_lora_rank": ("q_lora_rank",),
    "tie_word_embeddings": ("tie_word_embeddings", "weight_tying", "tie_embeddings"),
    "max_position_embeddings": (
        "max_target_positions", "max_position_embeddings", "n_positions", "max_seq_len", "seq_length",
        "n_ctx", "max_sequence_length", "max_seq_length", "model_max_length", "context_length",
    ),
    "sliding_window": (
        "sliding_window", "sliding_window_size", "attention_window_size", "local_attention",
    ),
    "attention_chunk_size": ("attention_chunk_size",),
    "num_experts": (
        "num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts",
        "ffn_config.moe_num_experts",
    ),
    "num_experts_per_tok": (
        "num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_k", "moe_topk",
        "top_k_experts", "ffn_config.moe_top_k",
    ),
    "num_shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "moe_intermediate_size": (
        "moe_intermediate_size", "expert_intermediate_size", "expert_ffn_hidden_size",
    ),
    "mtp_layers": (
        "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "mtp_num_layers",
    ),
    "is_encoder_decoder": ("is_encoder_decoder",),
    "dtype": ("dtype", "torch_dtype"),
}  # fmt: skip

# Keys that a composite config may state once, outside the language model's block.
_OUTSIDE = frozenset({"tie_word_embeddings", "dtype", "mtp_layers", "is_encoder_decoder"})
_BOOLEAN = frozenset({"tie_word_embeddings", "is_encoder_decoder"})


def read_config(config: Mapping[str, Any]) -> Settings:
    """Settings of a ``config.json``; null counts as not stated. Raises :class:`CheckpointError`."""
    key, block = _language_block(config)
    facts: dict[str, Fact] = {}
    for name, aliases in ALIASES.items():
        fact = _stated(name, aliases, block, key)
        if fact is None and name in _OUTSIDE and block is not config:
            fact = _stated(name, aliases, config, None)
        if fact is not None:
            facts[name] = fact
    return Settings(
        model_type=_text(block.get("model_type")) or _text(config.get("model_type")),
        architecture=_first_text(config.get("architectures")) or _first_text(block.get("architectures")),
        text_config_key=key,
        block=block,
        outer=config,
        facts=facts,
    )


def _language_block(config: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    """The dotted key and content of the language model's block; (None, config) where it is the whole."""
    for key in NESTING_KEYS:
        inner = config.get(key)
        if isinstance(inner, Mapping) and inner:
            deeper, block = _language_block(inner)
            return f"{key}.{deeper}" if deeper else key, block
    return None, config


def _stated(name: str, aliases: tuple[str, ...], block: Mapping[str, Any], nested: str | None) -> Fact | None:
    for alias, value in _present(aliases, block):
        detail = f"{nested}.{alias}" if nested else alias
        if name in _BOOLEAN:
            if isinstance(value, bool):
                return Fact(value, "config", detail)
        elif name == "dtype":
            if isinstance(value, str):
                return Fact(value.removeprefix("torch."), "config", detail)
        else:
            return Fact(_count(value, name, detail), "config", detail)
    return None


def _present(aliases: tuple[str, ...], block: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for alias in aliases:
        value: Any = block
        for part in alias.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            yield alias, value


def _count(value: Any, name: str, detail: str) -> int | list[int]:
    """A count, or one count per layer where the config lists them."""
    limit = MAX_LAYERS if name == "num_hidden_layers" else 2**40
    if isinstance(value, list) and name != "num_hidden_layers":
        if len(value) > MAX_LAYERS:
            raise CheckpointError(
                f"{FILE}: {detail} lists {len(value)} values",
                code="config_invalid",
                where={"file": FILE, "field": detail},
            )
        return [require_count(item, field_name=detail, file=FILE, limit=limit) for item in value]
    return require_count(value, field_name=detail, file=FILE, limit=limit)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _first_text(value: Any) -> str | None:
    return _text(value[0]) if isinstance(value, list) and value else _text(value)
