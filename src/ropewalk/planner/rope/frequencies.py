"""Rope blocks to rotation rates: what every type does to every pair, in plain floats.

Rates are radians per token, one for each pair of numbers of a head. Formulas are those of transformers
5.24 (modeling_rope_utils.py), vLLM 0.33 (rotary_embedding/) and llama.cpp b11434 where they differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ropewalk.engines import REFERENCE, EngineName, RopeTraits, engine_of

InverseFrequencies = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Rotation:
    """Rates of all pairs, and what queries and keys are each multiplied by (``attention_factor``)."""

    rates: InverseFrequencies
    attention_factor: float


@dataclass(frozen=True, slots=True)
class RotationInputs:
    """What a rotation depends on beside its block.

    ``head_dim`` is the width of a head (``qk_rope_head_dim`` for latent attention), ``rotary_dim`` the
    numbers of it that turn. ``seq_len`` is the length served: static engines choose longrope's list by it
    once, transformers by each prompt.
    """

    head_dim: int
    rotary_dim: int
    max_position_embeddings: int | None = None
    seq_len: int | None = None
    engine: EngineName = REFERENCE

    @property
    def traits(self) -> RopeTraits:
        """How the engine reads the block."""
        return engine_of(self.engine).rope


def base_rates(rope_theta: float, dim: int) -> InverseFrequencies:
    """theta ** (-2 i / dim) for each pair i: unscaled rotation."""
    return tuple(rope_theta ** (-2.0 * pair / dim) for pair in range(dim // 2))


def rotation(block: Mapping[str, Any], inputs: RotationInputs) -> Rotation:
    """The rotation that a canonical block stands for.

    Raises KeyError where the block lacks a key that its type needs, as the engines do; an unknown type is
    a KeyError as well.
    """
    return _TYPES[block["rope_type"]](block, inputs)


def attention_factor(
    block: Mapping[str, Any], *, max_position_embeddings: int | None, engine: EngineName
) -> float | None:
    """What queries and keys are each multiplied by under a block; None where it does not say enough."""
    try:
        if block.get("rope_type") == "yarn":
            return yarn_attention_factor(block)
        if block.get("rope_type") == "longrope":
            return longrope_attention_factor(
                block, max_position_embeddings=max_position_embeddings, engine=engine
            )
    except (KeyError, ZeroDivisionError):
        return None
    return 1.0


def _default(block: Mapping[str, Any], inputs: RotationInputs) -> Rotation:
    return Rotation(base_rates(block["rope_theta"], inputs.rotary_dim), 1.0)


def _linear(block: Mapping[str, Any], inputs: RotationInputs) -> Rotation:
    """Position interpolation: every rate divided by the factor."""
    rates = base_rates(block["rope_theta"], inputs.rotary_dim)
    return Rotation(tuple(rate / block["factor"] for rate in rates), 1.0)


def _dynamic(block: Mapping[str, Any], inputs: RotationInputs) -> Rotation:
    """NTK-aware base that grows with the prompt; with ``alpha`` (Hunyuan) it is fixed.

    transformers 5.24 grows it past ``max_position_embeddings``; vLLM 0.33 builds one table of that length
    and scales nothing, llama.cpp drops the type in conversion (only ``alpha`` is baked in).
    """
    dim, theta = inputs.rotary_dim, block["rope_theta"]
    if "alpha" in block:
        return Rotation(base_rates(ntk_base(theta, block["alpha"], dim), dim), 1.0)
    factor, trained = block["factor"], inputs.max_position_embeddings
    if inputs.traits.dynamic_ntk != "per_prompt" or trained is None:
        return Rotation(base_rates(theta, dim), 1.0)
    seq_len = max(inputs.seq_len or trained, trained)
    return Rotation(base_rates(ntk_base(theta, factor * seq_len / trained - (factor - 1), dim), dim), 1.0)


def ntk_base(rope_theta: float, alpha: float, dim: int) -> float:
    """theta * alpha ** (d / (d - 2)): the slowest pair turns alpha times slower, the fastest as before."""
    return float(rope_theta * alpha ** (dim / (dim - 2)))


def _ntk(block: Mapping[str, Any], inputs: RotationInputs) -> Rotation:
    """vLLM's own type (ntk_scaling_rope.py): (theta * s) ** (-2 i / d) / s ** (2 / d).

    With ``mixed_b`` pair i is divided by s ** (((i + 1) / (d / 2)) ** mixed_b) instead, base unchanged.
    """
    dim, theta, factor = inputs.rotary_dim, block["rope_theta"], block["factor"]
    if (mixed_b := block.get("mixed_b")) is None:
        rates = base_rates(theta * factor, dim)
        return Rotation(tuple(rate / factor ** (2.0 / dim) for rate in rates), 1.0)
    shares = (((pair + 1) / (dim / 2)) ** mixed_b for pair in range(dim // 2))
    rates = base_rates(theta, dim)
    return Rotation(tuple(rate / factor**share for rate, share in zip(rates, shares, strict=True)), 1.0)


def _yarn(block: Mapping[str, Any], inputs: RotationInputs) -> Rotation:
    """Fast pairs untouched, slow pairs divided by the factor, a ramp between them."""
    dim, theta, factor = inputs.rotary_dim, block["rope_theta"], block["factor"]
    low, high = correction_range(
        dim,
        theta,
        block["original_max_position_embeddings"],
        beta_fast=block.get("beta_fast", 32),
        beta_slow=block.get("beta_slow", 1),
        truncate=block.get("truncate", True) or not inputs.traits.obeys_truncate,
    )
    rates = tuple(
        rate * (1 - ramp) + rate / factor * ramp
        for rate, ramp in zip(base_rates(theta, dim), _ramp(low, high, dim // 2), strict=True)
    )
    return Rotation(rates, yarn_attention_factor(block))


def correction_range(
    dim: int,
    rope_theta: float,
    original: float,
    *,
    beta_fast: float = 32,
    beta_slow: float = 1,
    truncate: bool = True,
) -> tuple[float, float]:
    """Pairs between which the ramp runs: those turning ``beta_fast`` and ``beta_slow`` times in ``original``.

    llama.cpp b11434 always truncates; transformers 5.24 and vLLM 0.33 obey ``truncate``.
    """

    def pair_turning(turns: float) -> float:
        return dim * math.log(original / (2 * math.pi * turns)) / (2 * math.log(rope_theta))

    low, high = pair_turning(beta_fast), pair_turning(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    return (low, high + 0.001) if low == high else (low, high)


def _ramp(low: float, high: float, pairs: int) -> InverseFrequencies:
    return tuple(min(max((pair - low) / (high - low), 0.0), 1.0) for pair in range(pairs))


def magnitude(factor: float, mscale: float = 1.0) -> float:
    """0.1 * mscale * ln(factor) + 1; 1 up to factor 1 (YaRN, arXiv 2309.00071)."""
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def yarn_attention_factor(block: Mapping[str, Any]) -> float:
    """What queries and keys are each multiplied by under a YaRN block."""
    if block.get("attention_factor") is not None:
        return float(block["attention_factor"])
    mscale, all_dim = block.get("mscale"), block.get("mscale_all_dim")
    if mscale and all_dim:
        return magnitude(block["factor"], mscale) / magnitude(block["factor"], all_dim)
    return magnitude(block["factor"])


def _longrope(block: Mapping[str, Any], inputs: RotationInputs) -> Rotation:
    """One divisor per pair, from the long list past the original length, else from the short one."""
    original = block["original_max_position_embeddings"]
    factors: Sequence[float] = block["long_factor" if (inputs.seq_len or 0) > original else "short_factor"]
    rates = base_rates(block["rope_theta"], inputs.rotary_dim)
    scaled = tuple(rate / factor for rate, factor in zip(rates, factors, strict=True))
    attention_factor = longrope_attention_factor(
        block, max_position_embeddings=inputs.max_position_embeddings, engine=inputs.engine
    )
    return Rotation(scaled, attention_factor)


def longrope_attention_factor(
    block: Mapping[str, Any], *, max_position_embeddings: int | None, engine: EngineName
) -> float:
    """sqrt(1 + ln s / ln L0); vLLM 0.33 takes s from the lengths, whatever ``factor`` says."""
    original = block["original_max_position_embeddings"]
    factor = max_position_embeddings / original if max_position_embeddings else 1.0
    if not engine_of(engine).rope.longrope_factor_from_lengths:
        if block.get("attention_factor") is not None:
            return float(block["attention_factor"])
        factor = float(block.get("factor", factor))
    return 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))


def _llama3(block: Mapping[str, Any], inputs: RotationInputs) -> Rotation:
    """Pairs whose turn is long against the original length are divided, short ones kept, a blend between."""
    original, factor = block["original_max_position_embeddings"], block["factor"]
    low, high = block["low_freq_factor"], block["high_freq_factor"]

    def scaled(rate: float) -> float:
        turns = original * rate / (2 * math.pi)
        kept = min(max((turns - low) / (high - low), 0.0), 1.0)
        return float(kept * rate + (1 - kept) * rate / factor)

    return Rotation(tuple(map(scaled, base_rates(block["rope_theta"], inputs.rotary_dim))), 1.0)


def _proportional(block: Mapping[str, Any], inputs: RotationInputs) -> Rotation:
    """Gemma 4's global layers: the first share of pairs rotates as in a whole head, the rest not at all.

    transformers 5.24 divides by ``factor``; vLLM 0.33 and llama.cpp b11434 ignore it.
    """
    turning = inputs.rotary_dim // 2
    factor = block.get("factor", 1.0) if inputs.traits.divides_proportional else 1.0
    rates = base_rates(block["rope_theta"], inputs.head_dim)
    return Rotation(tuple(rate / factor if pair < turning else 0.0 for pair, rate in enumerate(rates)), 1.0)


_TYPES: dict[str, Callable[[Mapping[str, Any], RotationInputs], Rotation]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "ntk": _ntk,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}


def mrope_axes(sections: Sequence[int], *, interleaved: bool) -> tuple[int, ...]:
    """The axis (0 time, 1 height, 2 width) whose position turns each pair; text has all three equal.

    Chunked (Qwen2-VL): one band after the other. Interleaved (Qwen3-VL; vLLM 0.33, mrope.py): height and
    width take every third pair while they last, time the rest.
    """
    if not interleaved:
        return tuple(axis for axis, size in enumerate(sections) for _ in range(size))
    return tuple(
        pair % 3 if pair % 3 and pair < 3 * sections[pair % 3] else 0 for pair in range(sum(sections))
    )
