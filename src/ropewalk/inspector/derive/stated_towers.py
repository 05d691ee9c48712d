"""Towers that see or hear, as a config states them: their parameters, the tokens of an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ropewalk.inspector.records import Fact

_BLOCKS = {"vision": ("vision_config", "vit_config"), "audio": ("audio_config", "audio_encoder_config")}
_HIDDEN = ("hidden_size", "embed_dim", "d_model", "width", "n_embd")
_LAYERS = ("num_hidden_layers", "depth", "num_layers", "encoder_layers", "layers", "n_layer")
_INNER = ("intermediate_size", "mlp_dim", "encoder_ffn_dim")
_IMAGE_TOKENS = (
    ("", "mm_tokens_per_image"),
    ("", "vision_soft_tokens_per_image"),
    ("vision_config", "default_output_length"),
    ("vision_config", "num_image_tokens"),
)
_GATED = frozenset({"silu", "swiglu", "swish"})


def stated_towers(outer: Mapping[str, Any], hidden_size: int | None) -> dict[str, Fact]:
    """Parameters of each tower that the config describes, with the projector to ``hidden_size``.

    Attention's four matrices, the feed-forward, patches, and two matrices to the language model's width;
    norms and position tables are left out (about 2 %). A tower whose dimensions are not stated is None.
    """
    facts = {}
    for tower, names in _BLOCKS.items():
        name = next((name for name in names if isinstance(outer.get(name), Mapping)), None)
        if name is not None:
            count = _parameters(outer[name], hidden_size)
            facts[f"{tower}_parameters"] = Fact(count, "derived", f"dimensions of {name}")
    return facts


def item_facts(outer: Mapping[str, Any], text: Mapping[str, Any]) -> dict[str, Fact]:
    """Tokens of one image, and whether its tokens attend to later ones; only what is stated."""
    facts = {}
    for name, key in _IMAGE_TOKENS:
        block = outer.get(name) if name else outer
        count = _first(block, (key,)) if isinstance(block, Mapping) else None
        if count is not None:
            facts["image_tokens"] = Fact(count, "config", f"{name}.{key}".lstrip("."))
            break
    if text.get("use_bidirectional_attention") == "vision":
        facts["image_attention"] = Fact("both ways", "config", "use_bidirectional_attention")
    return facts


def _parameters(block: Mapping[str, Any], hidden_size: int | None) -> int | None:
    hidden, layers = _first(block, _HIDDEN), _first(block, _LAYERS)
    if not hidden or not layers:
        return None
    ratio = block.get("mlp_ratio")
    inner = _first(block, _INNER) or int(hidden * (ratio if isinstance(ratio, int | float) else 4))
    gated = str(block.get("hidden_act", "")).lower() in _GATED
    blocks = layers * (4 * hidden * hidden + (3 if gated else 2) * hidden * inner)
    patch = _first(block, ("patch_size", "spatial_patch_size")) or 0
    patches = 3 * patch * patch * (_first(block, ("temporal_patch_size",)) or 1) * hidden
    merged = hidden * (_first(block, ("spatial_merge_size",)) or 1) ** 2
    projector = merged * (merged if merged > hidden else 0) + merged * (hidden_size or 0)
    return int(blocks + patches + projector)


def _first(block: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    values = (block.get(name) for name in names)
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool) and v > 0), None)
