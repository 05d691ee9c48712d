"""How a model knows the order of its tokens, and its rotary positions in one spelling."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ropewalk.inspector.derive.families import family_of
from ropewalk.inspector.derive.patterns import layer_words, rotary_flags
from ropewalk.inspector.derive.rope_config import RopeConfig, rope_from_gguf, standardise_rope
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.records import Fact

_TABLES = ("wpe.", "embed_positions.", "position_embeddings.", "position_embd.")
_STATED_TYPES = {"nope": "none", "absolute": "learned", "alibi": "alibi", "rope": None}
_ROTARY = ("rope", "nope_mixed")
# Keys that speak of rotation; the width of a latent key that is set apart for it is stated without one too.
_ROTATION = re.compile(r"^(?!qk_rope_head_dim$).*(?:rope|rotary)")


def position_embedding(settings: Settings, loose_names: list[str], num_layers: int) -> Fact:
    """``rope``, ``learned``, ``alibi``, ``relative`` (T5), ``none`` or ``nope_mixed``, and what shows it."""
    family = family_of(settings.model_type)
    own = family.positions(settings) if family.positions else None
    if own is not None:
        return Fact(own, "derived", f"model_type {settings.model_type}")
    declared = settings.raw("position_embedding_type")
    if isinstance(declared, str) and _STATED_TYPES.get(declared):
        return Fact(_STATED_TYPES[declared], "config", "position_embedding_type")
    if _is_alibi(settings):
        return Fact("alibi", settings.source, "alibi")
    if settings.raw("relative_attention_num_buckets") or settings.raw("attention.relative_buckets_count"):
        return Fact("relative", settings.source, "relative_attention_num_buckets")
    if settings.raw("mla_use_nope") is True:
        return Fact("none", "config", "mla_use_nope")
    table = next((name for name in loose_names if any(word in name for word in _TABLES)), None)
    if table is not None:
        return Fact("learned", "tensor", table)
    if _is_saved_without_rotation(settings):
        return Fact(
            "none",
            "derived",
            "saved by transformers 5 without a word about rotation",
        )
    return _rotary(settings, num_layers)


def _rotary(settings: Settings, num_layers: int) -> Fact:
    listed = rotary_flags(settings, num_layers)
    if listed is not None and not all(listed):
        return Fact("nope_mixed", settings.source, "no_rope_layers")
    words = layer_words(settings, num_layers) or []
    nope = family_of(settings.model_type).nope_words
    if "sliding" in words and any(word in nope for word in words):
        return Fact("nope_mixed", "derived", f"model_type {settings.model_type}: full layers do not rotate")
    return Fact("rope", "derived", "no other kind of position is stated")


def _is_saved_without_rotation(settings: Settings) -> bool:
    """transformers 5 writes ``rope_parameters`` wherever a class rotates (modeling_rope_utils.py)."""
    version = settings.outer.get("transformers_version")
    if settings.format == "gguf" or not isinstance(version, str) or version.split(".")[0] != "5":
        return False
    keys = [
        key for block in (settings.block, settings.outer) for key, value in block.items() if value is not None
    ]
    return not any(_ROTATION.search(key) for key in keys)


def _is_alibi(settings: Settings) -> bool:
    attention = settings.raw("attn_config")
    nested = attention.get("alibi") if isinstance(attention, Mapping) else None
    bias = settings.raw("attention.max_alibi_bias")
    return settings.raw("alibi") is True or nested is True or (isinstance(bias, float) and bias > 0)


def rope_of(
    settings: Settings, *, positions: str, head_dim: int | None, loose_names: list[str]
) -> RopeConfig:
    """The rotary positions of a checkpoint, empty where it has none."""
    rotary = positions in _ROTARY
    if settings.format == "gguf":
        return rope_from_gguf(
            settings.outer,
            head_dim=head_dim,
            has_rope_freqs="rope_freqs.weight" in loose_names,
            has_long_factors="rope_factors_long.weight" in loose_names,
            rotary=rotary,
        )
    config = {"max_position_embeddings": settings.value("max_position_embeddings"), **settings.block}
    config["model_type"] = settings.model_type
    outer = settings.outer if settings.text_config_key else None
    return standardise_rope(config, head_dim=head_dim, outer=outer, rotary=rotary)


def trained_before_chunks(settings: Settings) -> Fact | None:
    """The trained length of a model with dual chunk attention (Qwen2.5-1M): the rest is the chunks' doing.

    vLLM 0.32 and later have no such backend.
    """
    block = settings.raw("dual_chunk_attention_config")
    length = block.get("original_max_position_embeddings") if isinstance(block, Mapping) else None
    if not isinstance(length, int) or isinstance(length, bool) or not 0 < length <= 2**40:
        return None
    return Fact(length, "config", "dual_chunk_attention_config.original_max_position_embeddings")
