"""The canonical rope block and what can be read off it: its type, its scaling, its full-attention part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Block = dict[str, Any]
Blocks = dict[str, Block | None]

KNOWN_TYPES = frozenset(
    {"default", "linear", "dynamic", "ntk", "yarn", "longrope", "llama3", "proportional", "none"}
)
# Other spellings of a type, as vLLM 0.33 rewrites them (transformers_utils/config.py:609-665).
_ALIASES = {"su": "longrope", "mrope": "default", "telechat3-yarn": "yarn", "deepseek_yarn": "yarn"}
# Layer types in the order in which they stand for "the layers that see everything".
_FULL_KEYS = ("full_attention", "compress", "main")
_NOT_SCALING = frozenset({"rope_theta", "partial_rotary_factor"})


def canonical_type(name: Any) -> str:
    """``su`` -> ``longrope``; an unknown name stays as it is."""
    return _ALIASES.get(str(name), str(name))


def type_of(block: Mapping[str, Any]) -> str:
    """Canonical type of a block in either generation of keys; ``rope_type`` wins over ``type``."""
    for key in ("rope_type", "type"):
        if block.get(key) is not None:
            return canonical_type(block[key])
    return "default"


def is_nested(rope_parameters: Mapping[str, Any]) -> bool:
    """Whether ``rope_parameters`` holds one block per layer type instead of being one."""
    return any(isinstance(value, Mapping) for value in rope_parameters.values())


def full_key(blocks: Mapping[str, Any]) -> str | None:
    """The layer type that stands for full attention among nested blocks; None where nothing rotates."""
    keys = (*_FULL_KEYS, *blocks)
    return next((key for key in keys if isinstance(blocks.get(key), Mapping) and blocks[key]), None)


def full_block(rope_parameters: Mapping[str, Any] | None) -> Block:
    """The block of the full-attention layers out of a flat or nested ``rope_parameters``; empty for none."""
    if not rope_parameters:
        return {}
    if not is_nested(rope_parameters):
        return dict(rope_parameters)
    key = full_key(rope_parameters)
    return {} if key is None else dict(rope_parameters[key])


def scaling_of(block: Mapping[str, Any]) -> Block | None:
    """What a block says beyond base and rotated share; None for plain rotation."""
    rest = {key: value for key, value in block.items() if key not in _NOT_SCALING}
    return rest if rest and rest != {"rope_type": "default"} else None
