"""config.json to settings: finds the language model's block and reads it through one alias table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ropewalk.inspector.derive.class_defaults import SOURCE, class_defaults, text_type
from ropewalk.inspector.derive.settings import (
    PER_LAYER,
    Settings,
    invalid,
    require,
    require_count,
    require_counts,
)
from ropewalk.inspector.records import Fact, Source
from ropewalk.limits import MAX_LAYERS

FILE = "config.json"

# Where composite models keep the language model, outermost first.
NESTING_KEYS = (
    "text_config",
    "language_config",
    "llm_config",
    "language_model_config",
    "text_model_config",
    "thinker_config",
    "vlm_config",
    "decoder",
    "generator",
)

# Canonical name: the keys that mean it, in order of preference. A dot enters a nested block. An
# encoder-decoder states both halves; the decoder's keys come first, since it is what holds a cache.
ALIASES: dict[str, tuple[str, ...]] = {
    "num_hidden_layers": (
        "decoder_layers", "num_decoder_layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers",
        "num_transformer_layers", "decoder_num_hidden_layers", "num_blocks", "layers",
    ),
    "hidden_size": (
        "hidden_size", "d_model", "n_embd", "n_embed", "dim", "model_dim", "embed_dim", "emb_dim",
        "embedding_dim",
    ),
    "intermediate_size": (
        "decoder_ffn_dim", "intermediate_size", "ffn_dim", "n_inner", "d_ff", "ffn_hidden_size", "hidden_dim",
    ),
    "vocab_size": (
        "vocab_size", "padded_vocab_size", "embedding_size", "n_token", "n_words", "tgt_vocab_size",
    ),
    "num_attention_heads": (
        "decoder_attention_heads", "num_attention_heads", "n_head", "n_heads", "num_heads",
        "num_query_heads", "attention_heads", "decoder_num_attention_heads", "num_decoder_attention_heads",
    ),
    "num_key_value_heads": (
        "num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "multi_query_group_num",
        "attn_config.kv_n_heads", "num_attention_groups", "num_key_value_heads_per_layer",
        "decoder_num_key_value_heads",
    ),
    "head_dim": ("head_dim", "attention_head_dim", "d_kv", "kv_channels", "head_size"),
    "v_head_dim": ("v_head_dim",),
    "swa_num_attention_heads": ("swa_num_attention_heads",),
    "swa_num_key_value_heads": ("swa_num_key_value_heads",),
    "swa_head_dim": ("swa_head_dim",),
    "swa_v_head_dim": ("swa_v_head_dim",),
    "global_head_dim": ("global_head_dim",),
    "num_global_key_value_heads": ("num_global_key_value_heads",),
    "qk_nope_head_dim": ("qk_nope_head_dim",),
    "qk_rope_head_dim": ("qk_rope_head_dim",),
    "kv_lora_rank": ("kv_lora_rank",),
    "q_lora_rank": ("q_lora_rank",),
    "index_head_dim": ("index_head_dim", "sparse_attention_config.sparse_index_dim"),
    "num_kv_shared_layers": ("num_kv_shared_layers",),
    "tie_word_embeddings": ("tie_word_embeddings", "weight_tying", "tie_embeddings"),
    "max_position_embeddings": (
        "max_target_positions", "max_position_embeddings", "n_positions", "max_seq_len", "seq_length",
        "n_ctx", "max_sequence_length", "max_seq_length", "model_max_length", "context_length",
        "max_sequence_len",
    ),
    "model_max_length": ("model_max_length",),
    "sliding_window": (
        "sliding_window", "sliding_window_size", "attention_window_size", "local_attention", "window_size",
    ),
    "attention_chunk_size": ("attention_chunk_size",),
    "num_experts": (
        "num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts",
        "ffn_config.moe_num_experts", "num_routed_experts",
    ),
    "num_experts_per_tok": (
        "num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_k", "moe_topk", "moe_top_k",
        "top_k_experts", "ffn_config.moe_top_k",
    ),
    "num_shared_experts": (
        "n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert",
    ),
    "moe_intermediate_size": (
        "moe_intermediate_size", "expert_intermediate_size", "expert_ffn_hidden_size",
    ),
    "shared_expert_intermediate_size": (
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size",
        "share_expert_dim",
    ),
    "mtp_layers": (
        "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "mtp_num_layers",
        "num_mtp_layers",
    ),
    "encoder_layers": ("encoder_layers", "num_encoder_layers"),
    "max_source_positions": ("max_source_positions",),
    "is_encoder_decoder": ("is_encoder_decoder",),
    "dtype": ("dtype", "torch_dtype"),
    # State-space and gated delta layers: a delta net's keys are the groups and states of Mamba 2.
    "ssm_conv_kernel": (
        "mamba_d_conv", "linear_conv_kernel_dim", "conv_kernel", "conv1d_width",
        "linear_attn_config.short_conv_kernel_size", "short_conv_kernel_size", "conv_kernel_size",
        "sconv_kernel_size",
    ),
    "ssm_state_size": ("mamba_d_state", "ssm_state_size", "linear_key_head_dim", "state_size"),
    "ssm_num_heads": (
        "mamba_n_heads", "mamba_num_heads", "linear_num_value_heads", "n_mamba_heads",
        "linear_attn_config.num_heads", "linear_num_heads",
    ),
    "ssm_head_dim": (
        "mamba_d_head", "mamba_head_dim", "linear_value_head_dim", "mamba_headdim",
        "linear_attn_config.head_dim", "linear_head_dim",
    ),
    "ssm_num_groups": ("mamba_n_groups", "linear_num_key_heads", "n_groups", "mamba_ngroups"),
    "ssm_inner_size": ("mamba_d_ssm",),
    "ssm_expand": ("mamba_expand", "expand"),
    "conv_l_cache": ("conv_L_cache",),
    "first_k_dense_replace": ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"),
    "linear_key_head_dim": ("linear_key_head_dim", "linear_attn_config.head_dim"),
    "per_layer_input_size": ("hidden_size_per_layer_input",),
    "mamba_chunk_size": ("mamba_chunk_size", "chunk_size"),
    "mamba_ssm_dtype": ("mamba_ssm_dtype", "mamba_ssm_cache_dtype"),
    "lru_width": ("lru_width",),
}  # fmt: skip

# Keys that a composite config may state once, outside the language model's block.
_OUTSIDE = frozenset({"tie_word_embeddings", "dtype", "mtp_layers", "is_encoder_decoder"})
# The word of the wrapper counts, whatever the block inside says (transformers 5.24, modeling_utils.py).
_GOVERNED_OUTSIDE = frozenset({"tie_word_embeddings"})
_BOOLEAN = frozenset({"tie_word_embeddings", "is_encoder_decoder"})


def read_config(config: Mapping[str, Any]) -> Settings:
    """Settings of a ``config.json``, null kept apart from absent. Raises :class:`CheckpointError`."""
    key, block = _language_block(config)
    model_type = _model_type(config, block)
    defaults = class_defaults(model_type)
    facts: dict[str, Fact] = {}
    for name, aliases in ALIASES.items():
        fact = None
        if name in _GOVERNED_OUTSIDE and key is not None and not key.startswith("decoder"):
            fact = _by_wrapper(name, aliases, config, key)
        if fact is None or fact.value is None:
            fact = _declared(name, aliases, block, nested=key)
        if fact is None and name in _OUTSIDE and key is not None:
            fact = _declared(name, aliases, config)
        if fact is None:
            fact = _declared(name, aliases, defaults, source="default")
        if fact is not None:
            facts[name] = fact
    _apply_multi_query(block, defaults, facts)
    _count_listed_layers(block, key, facts)
    _adjust_feed_forward(block, facts)
    _switch_off_experts(block, facts)
    return Settings(
        format="config",
        model_type=model_type,
        architecture=_first_text(config.get("architectures")) or _first_text(block.get("architectures")),
        text_config_key=key,
        block=block,
        outer=config,
        defaults=defaults,
        facts=facts,
        per_layer=_per_layer(block),
        by_word=_by_word(block),
    )


def _per_layer(block: Mapping[str, Any]) -> dict[int, dict[str, int]]:
    """``per_layer_config``: what single layers have of their own (transformers 5.15 and later)."""
    declared = block.get("per_layer_config")
    if not isinstance(declared, Mapping):
        return {}
    found: dict[int, dict[str, int]] = {}
    for index, own in declared.items():
        if not (isinstance(index, str) and index.isascii() and index.isdecimal()) or len(index) > 6:
            raise invalid(index, "the number of a layer", field_name="per_layer_config", file=FILE)
        found[int(index)] = _own_counts(own, f"per_layer_config.{index}")
    return found


def _by_word(block: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """``attention_other_setting``: what the layers of one type have of their own (Step-3.5)."""
    declared = block.get("attention_other_setting")
    if not isinstance(declared, Mapping) or not isinstance(declared.get("attention_type"), str):
        return {}
    rest = {key: value for key, value in declared.items() if key != "attention_type"}
    return {declared["attention_type"]: _own_counts(rest, "attention_other_setting")}


def _own_counts(own: Any, detail: str) -> dict[str, int]:
    block = require(own, dict, field_name=detail, file=FILE)
    found = {}
    for name in (*sorted(PER_LAYER), "sliding_window"):
        fact = _declared(name, ALIASES[name], block, nested=detail)
        if fact is not None and isinstance(fact.value, int):
            found[name] = fact.value
    return found


def _model_type(config: Mapping[str, Any], block: Mapping[str, Any]) -> str | None:
    """That of the language model, also where a composite config leaves the nested block out."""
    own, outer = _text(block.get("model_type")), _text(config.get("model_type"))
    inner = text_type(outer)
    if own is None or (block is config and inner is not None and not class_defaults(own)):
        return inner or own or outer
    return own


def _language_block(config: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    """The dotted key and content of the language model's block; (None, config) where it is the whole."""
    for key in (*NESTING_KEYS, *_unknown_nesting(config)):
        inner = config.get(key)
        if isinstance(inner, Mapping) and inner:
            deeper, block = _language_block(inner)
            return f"{key}.{deeper}" if deeper else key, block
    return None, config


def _unknown_nesting(config: Mapping[str, Any]) -> list[str]:
    """A block that has layers and a vocabulary, where the top level has no layers: a language model's."""
    if _declared_keys(config, "num_hidden_layers"):
        return []
    found = [
        key
        for key, inner in config.items()
        if isinstance(inner, Mapping)
        and _declared_keys(inner, "num_hidden_layers")
        and _declared_keys(inner, "vocab_size")
    ]
    if set(found) == {"encoder_config", "decoder_config"}:
        return ["decoder_config"]  # Dia
    return found if len(found) == 1 else []  # several are parts, of which none is the whole


def _declared_keys(block: Mapping[str, Any], name: str) -> list[str]:
    return [key for key in ALIASES[name] if block.get(key) is not None]


def _declared(
    name: str,
    aliases: tuple[str, ...],
    block: Mapping[str, Any],
    *,
    nested: str | None = None,
    source: Source = "config",
) -> Fact | None:
    """The first alias that holds a value; a fact of None where the key is there and null."""
    null: Fact | None = None
    for alias in aliases:
        is_there, value = _look_up(block, alias)
        detail = f"{nested}.{alias}" if nested else alias
        if source == "default":
            detail = f"{alias} of {SOURCE}"
        if isinstance(value, list) and name.startswith("ssm_"):
            continue  # ``conv_kernel`` of an audio encoder
        if value is not None:
            return Fact(_checked(value, name, detail), source, detail)
        if is_there:
            null = null or Fact(None, source, detail)
    return null


def _look_up(block: Mapping[str, Any], alias: str) -> tuple[bool, Any]:
    value: Any = block
    for part in alias.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False, None
        value = value[part]
    return True, None if value in ("auto", "") else value


def _checked(value: Any, name: str, detail: str) -> Any:
    """A flag, a dtype, a count, or one count per layer. Raises :class:`CheckpointError`."""
    if name in _BOOLEAN:
        return require(value, bool, field_name=detail, file=FILE)
    if name in ("dtype", "mamba_ssm_dtype"):
        return require(value, str, field_name=detail, file=FILE).removeprefix("torch.")
    if isinstance(value, list) and name in PER_LAYER:
        counts = require_counts(value, field_name=detail, file=FILE)
        return counts[0] if len(set(counts)) == 1 else counts
    if (name, value) in (("sliding_window", -1), ("max_position_embeddings", 0)):
        return None  # written so where there is none
    limit = MAX_LAYERS if name == "num_hidden_layers" else 2**40
    return require_count(value, field_name=detail, file=FILE, limit=limit)


def _apply_multi_query(block: Mapping[str, Any], defaults: Mapping[str, Any], facts: dict[str, Fact]) -> None:
    """One KV head where a flag says so: Falcon's first architecture and GPT-BigCode, whatever else is."""
    if {**defaults, **block}.get("new_decoder_architecture") is True:
        return
    for source, values in (("config", block), ("default", defaults)):
        flag = values.get("multi_query")
        if isinstance(flag, bool):
            if flag:
                facts["num_key_value_heads"] = Fact(1, cast(Source, source), "multi_query")
            return


def _by_wrapper(name: str, aliases: tuple[str, ...], config: Mapping[str, Any], key: str) -> Fact | None:
    """What the nearest wrapper around the language model's block states."""
    wrappers: list[tuple[str | None, Mapping[str, Any]]] = [(None, config)]
    for part in key.split(".")[:-1]:
        path, around = wrappers[-1]
        wrappers.append((f"{path}.{part}" if path else part, around[part]))
    found = (_declared(name, aliases, around, nested=path) for path, around in reversed(wrappers))
    return next((fact for fact in found if fact is not None and fact.value is not None), None)


def _adjust_feed_forward(block: Mapping[str, Any], facts: dict[str, Fact]) -> None:
    """LFM2 states a width that its class reduces by a third and rounds up (modeling_lfm2.py, Lfm2MLP)."""
    declared, multiple = facts.get("intermediate_size"), block.get("block_multiple_of")
    if block.get("block_auto_adjust_ff_dim") is not True or declared is None:
        return
    factor = block.get("block_ffn_dim_multiplier", 1.0)
    if not isinstance(declared.value, int) or not isinstance(multiple, int) or not 0 < multiple <= 2**20:
        return
    if not isinstance(factor, int | float) or not 0 < factor <= 64:
        return
    width = -(-int(factor * (2 * declared.value // 3)) // multiple) * multiple
    facts["intermediate_size"] = Fact(width, "config", f"{declared.detail}, by block_auto_adjust_ff_dim")


def _switch_off_experts(block: Mapping[str, Any], facts: dict[str, Fact]) -> None:
    """Numbers of experts that a flag says are not used (Doge, Gemma 4)."""
    key = next((key for key in ("is_moe", "enable_moe_block") if block.get(key) is False), None)
    if key is not None:
        for name in ("num_experts", "num_experts_per_tok", "moe_intermediate_size"):
            if name in facts:
                facts[name] = Fact(None, "config", key)


def _count_listed_layers(block: Mapping[str, Any], nested: str | None, facts: dict[str, Fact]) -> None:
    """Nemotron 3 states no number of layers, only their list."""
    for key in ("layers_block_type", "hybrid_override_pattern", "layer_types"):
        listed = block.get(key)
        if "num_hidden_layers" not in facts and isinstance(listed, list | str) and listed:
            count = require_count(len(listed), field_name=key, file=FILE, limit=MAX_LAYERS)
            facts["num_hidden_layers"] = Fact(count, "config", f"{nested}.{key}" if nested else key)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _first_text(value: Any) -> str | None:
    return _text(value[0]) if isinstance(value, list) and value else _text(value)
