"""A rope decision in each engine's own words: config blocks, vLLM's override, llama-server's flags."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ropewalk.inspector.rope_blocks import Block, full_key, is_nested
from ropewalk.planner.rope.trained_context import freq_scale, scaled_len, single

# What belongs to a scaling that is replaced; everything else of a block is kept (mrope_section, ...).
_REPLACED = frozenset({"rope_type", "rope_theta", "factor", "original_max_position_embeddings"})


@dataclass(frozen=True, slots=True)
class Emission:
    """The blocks of a decision. All None and no flags where nothing has to be set."""

    transformers_v4: dict[str, Any] | None = None
    transformers_v5: dict[str, Any] | None = None
    vllm_hf_overrides: dict[str, Any] | None = None
    llama_server_flags: tuple[str, ...] = ()


def smallest_factor(target_len: int, original: int) -> float:
    """target / original, as the smallest double whose table of ``int(original * factor)`` rows covers target.

    vLLM 0.33 builds ceil(original * factor) rows and does not check them against the length it serves.
    """
    factor = target_len / original
    while int(original * factor) < target_len:
        factor = math.nextafter(factor, math.inf)
    return factor


def yarn_block(block: Mapping[str, Any], *, factor: float, original: int) -> Block:
    """The plain block with YaRN added: base and every other key kept, the factor a float."""
    kept = {key: value for key, value in block.items() if key not in _REPLACED}
    return {
        "rope_type": "yarn",
        "rope_theta": block["rope_theta"],
        **kept,
        "factor": float(factor),
        "original_max_position_embeddings": original,
    }


def emit_yarn(
    rope_parameters: Mapping[str, Any],
    block: Mapping[str, Any],
    *,
    max_len: int,
    target_len: int,
    text_config_key: str | None,
    new_keys: bool = True,
) -> Emission:
    """``block`` in place of the full-attention block of ``rope_parameters``, for ``max_len`` tokens.

    ``max_position_embeddings`` goes along: vLLM 0.30 and later serve no more than it, and transformers
    before 4.53 took the factor from it. ``new_keys``: vLLM reads ``rope_parameters``.
    """
    v4 = _v4(block, max_len)
    key = full_key(rope_parameters) if is_nested(rope_parameters) else None
    parameters = dict(block) if key is None else {**rope_parameters, key: dict(block)}
    v5 = {"max_position_embeddings": max_len, "rope_parameters": parameters}
    return Emission(
        transformers_v4=_under(text_config_key, v4),
        transformers_v5=_under(text_config_key, v5),
        vllm_hf_overrides=_under(text_config_key, v5 if new_keys else v4),
        llama_server_flags=llama_yarn_flags(
            block["factor"], block["original_max_position_embeddings"], target_len=target_len
        ),
    )


def _v4(block: Mapping[str, Any], max_len: int) -> dict[str, Any]:
    """transformers 4 keeps base and rotated share beside ``rope_scaling``."""
    beside = {key: block[key] for key in ("rope_theta", "partial_rotary_factor") if key in block}
    scaling = {key: value for key, value in block.items() if key not in beside}
    return {"max_position_embeddings": max_len, **beside, "rope_scaling": scaling}


def emit_length(max_len: int, *, context_key: str, text_config_key: str | None) -> Emission:
    """Only the config's own limit raised, nothing scaled."""
    block = _under(text_config_key, {context_key: max_len})
    return Emission(transformers_v4=block, transformers_v5=block, vllm_hf_overrides=block)


def _under(text_config_key: str | None, block: dict[str, Any]) -> dict[str, Any]:
    """Nested where the config keeps its language model; vLLM 0.33 merges nested overrides key by key."""
    for key in reversed(text_config_key.split(".") if text_config_key else []):
        block = {key: block}
    return block


def llama_yarn_flags(factor: float, original: int, *, target_len: int) -> tuple[str, ...]:
    """The three YaRN flags; the original length always, or llama.cpp takes the GGUF's context_length.

    llama.cpp holds the factor in single precision and lets a slot have int(original / (1 / factor))
    tokens: where rounding would cost the last token (b11549: 14,336 = 8,192 x 1.75 gives 14,335) the next
    larger single-precision number is written instead of the exact factor.
    """
    assert int(original * factor) >= target_len  # noqa: S101 - decided before: no factor near it reaches
    return (
        "--rope-scaling", "yarn",
        "--rope-scale", _llama_factor(factor, original, target_len),
        "--yarn-orig-ctx", str(original),
    )  # fmt: skip


def _llama_factor(factor: float, original: int, target_len: int) -> str:
    if _llama_context(factor, original) >= target_len:
        return format_number(factor)
    texts = (_shortest(value) for value in _singles_above(factor))
    return next(text for text in texts if _llama_context(float(text), original) >= target_len)


def _llama_context(factor: float, original: int) -> int:
    """Tokens that a slot can have, however the factor is inverted (by the flag's parser, or before it)."""
    return min(scaled_len(original, scale) for scale in (freq_scale(factor), single(1.0 / factor)))


def _singles_above(value: float) -> Iterator[float]:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    while True:
        bits += 1
        yield struct.unpack("<f", struct.pack("<I", bits))[0]


def _shortest(value: float) -> str:
    """The fewest digits that single precision reads back as this value."""
    return next(text for digits in range(6, 10) if single(float(text := f"{value:.{digits}g}")) == value)


def format_number(value: float) -> str:
    """Shortest text that parses back to the same double; whole numbers without a point."""
    return repr(value).removesuffix(".0")
