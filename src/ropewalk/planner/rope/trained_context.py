"""The trained context that llama-server caps every slot at, once the flags of a command line are in.

Rules of llama.cpp b11434: src/llama-model.cpp:1408-1432, src/llama-context.cpp:112-170 and :3894.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ropewalk.inspector.rope_blocks import type_of
from ropewalk.planner.rope import versions


@dataclass(frozen=True, slots=True)
class LlamaRope:
    """Scaling as llama.cpp holds it: ``freq_scale`` is 1 / factor in single precision.

    ``type`` is none, linear, yarn or longrope; ``original`` what YaRN counts from, None where nothing
    says.
    """

    type: str
    freq_scale: float
    original: int | None

    @property
    def factor(self) -> float:
        """How many times slower the slowest pairs rotate."""
        return 1.0 / self.freq_scale


def shipped_rope(block: Mapping[str, Any]) -> LlamaRope:
    """What a GGUF with this canonical block says; a scaling baked into tensors counts as none here."""
    kind = type_of(block)
    original = block.get("original_max_position_embeddings") if kind in ("yarn", "longrope") else None
    if kind not in ("linear", "yarn"):
        return LlamaRope("longrope" if kind == "longrope" else "linear", 1.0, original)
    return LlamaRope(kind, freq_scale(float(block.get("factor") or 1.0)), original)


def with_flags(
    shipped: LlamaRope, *, scaling: str | None, scale: float | None, original: int | None
) -> LlamaRope:
    """The scaling in effect: a flag replaces what the GGUF says, it does not multiply it.

    ``scaling`` is ``--rope-scaling``, ``scale`` the frequency scale (``--rope-freq-scale``, or 1 over
    ``--rope-scale``), ``original`` ``--yarn-orig-ctx``; 0 and None are unset. ``none`` turns any scale off.
    """
    kind = scaling or shipped.type
    effective = 1.0 if kind == "none" else scale or shipped.freq_scale
    return LlamaRope(kind, effective, original or shipped.original)


def trained_context(
    context_length: int, shipped: LlamaRope, effective: LlamaRope, *, version: str | None = None
) -> int:
    """What slots are capped at: the GGUF's ``context_length``, or what YaRN flags re-derive.

    Only YaRN does, and only at another scale than the GGUF's: linear scaling and another base leave the
    cap where it is.
    """
    lifts = effective.type == "yarn" and effective.freq_scale != shipped.freq_scale
    if not lifts or not versions.has(versions.YARN_LIFTS_TRAINED_CONTEXT, version):
        return context_length
    return scaled_len(effective.original or context_length, effective.freq_scale)


def scaled_len(original: int, scale: float) -> int:
    """Tokens that a slot can have: the original length over the frequency scale, in single precision."""
    return int(single(single(original) / scale))


def freq_scale(factor: float) -> float:
    """1 / factor as ``--rope-scale`` makes it: each step in single precision (common/arg.cpp)."""
    return single(1.0 / single(factor))


def single(value: float) -> float:
    """Rounded to single precision."""
    rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return rounded
