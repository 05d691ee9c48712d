"""The rotation table of a checkpoint: rates, wavelengths, and what scaling does to each pair."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ropewalk.engines import EngineName
from ropewalk.errors import CheckpointError, UsageError
from ropewalk.findings import Finding
from ropewalk.inspector.records import Inspection
from ropewalk.inspector.rope_blocks import Block, full_block
from ropewalk.planner.records import RopeDecision
from ropewalk.planner.rope.decision import RopeAdvice
from ropewalk.planner.rope.frequencies import Rotation, RotationInputs, mrope_axes, rotation

# Wider than any head; a bound before a list is built from a number in a file.
_MAX_DIM = 65_536


@dataclass(frozen=True, slots=True)
class RopePair:
    """One pair of numbers of a head.

    ``rate`` is in radians per token without any scaling, ``wavelength`` the tokens of one turn (None where
    the pair does not turn); ``scaled_rate`` and ``scaled_wavelength`` are with the scaling in force, None
    where the checkpoint does not tell; ``ratio`` is scaled over unscaled rate. ``axis`` is the position
    that turns the pair of a multimodal model: 0 time, 1 height, 2 width.
    """

    index: int
    rate: float
    wavelength: float | None
    scaled_rate: float | None
    scaled_wavelength: float | None
    ratio: float | None
    axis: int | None = None


@dataclass(frozen=True, slots=True)
class RopeTable:
    """What ``ropewalk rope`` prints.

    ``touched`` are the pairs whose rate the scaling changes; ``incomplete`` those that, at the rates the
    weights were trained with, do not finish one turn within ``native_context``.
    """

    checkpoint: str
    engine: EngineName
    context_len: int
    native_context: int | None
    supported_context: int | None
    rope_theta: float
    head_dim: int
    rotary_dim: int
    attention_factor: float | None
    pairs: tuple[RopePair, ...]
    touched: tuple[int, ...]
    incomplete: tuple[int, ...]
    decision: RopeDecision
    findings: tuple[Finding, ...]
    schema: str = "ropewalk.rope/1"


def rope_table(
    inspection: Inspection, advice: RopeAdvice, *, context_len: int, engine: EngineName
) -> RopeTable:
    """Every pair of the full-attention layers under ``advice``.

    Raises :class:`UsageError` where the model has no rotary positions, :class:`CheckpointError` where its
    rope block cannot be computed (the engines would fail on it too).
    """
    shipped = full_block(inspection.value("rope_parameters"))
    rotary_dim = inspection.value("rotary_dim")
    if not shipped or not rotary_dim:
        positions = inspection.value("position_embedding")
        raise UsageError(f"this model has no rotary positions ({positions})", code="no_rotary_positions")
    inputs = RotationInputs(
        head_dim=_head_dim(inspection, rotary_dim),
        rotary_dim=rotary_dim,
        max_position_embeddings=inspection.value("max_position_embeddings"),
        seq_len=context_len,
        engine=engine,
    )
    trained = _rotation(shipped, inputs)
    in_force = _rotation(advice.block, inputs)
    pairs = _pairs(shipped, inputs, in_force)
    native = advice.native_context
    rates = trained.rates if trained is not None else tuple(pair.rate for pair in pairs)
    return RopeTable(
        checkpoint=inspection.checkpoint.source,
        engine=engine,
        context_len=context_len,
        native_context=native,
        supported_context=advice.supported_context,
        rope_theta=shipped["rope_theta"],
        head_dim=inputs.head_dim,
        rotary_dim=rotary_dim,
        attention_factor=in_force.attention_factor if in_force is not None else None,
        pairs=pairs,
        touched=tuple(pair.index for pair in pairs if pair.ratio is not None and pair.ratio != 1.0),
        incomplete=tuple(i for i, rate in enumerate(rates) if native and 0 < rate * native < 2 * math.pi),
        decision=advice.decision,
        findings=advice.findings,
    )


def _head_dim(inspection: Inspection, rotary_dim: int) -> int:
    """Width of the heads that the full block turns; latent layers turn their rope part alone."""
    if (width := inspection.value("qk_rope_head_dim")) is not None:
        return int(width)
    full = (group.head_dim_k for group in inspection.layers if group.kind == "full" and group.head_dim_k)
    return int(next(full, None) or inspection.value("head_dim") or rotary_dim)


def _rotation(block: Mapping[str, Any], inputs: RotationInputs) -> Rotation | None:
    """None where a GGUF keeps the scaling in a tensor, of which the headers hold no numbers."""
    baked = {"llama3": "factor", "longrope": "long_factor"}.get(str(block.get("rope_type")))
    return None if baked is not None and baked not in block else _computed(block, inputs)


def _computed(block: Mapping[str, Any], inputs: RotationInputs) -> Rotation:
    try:
        if max(inputs.head_dim, inputs.rotary_dim) > _MAX_DIM:
            raise ValueError(f"heads of {max(inputs.head_dim, inputs.rotary_dim)} numbers")
        return rotation(block, inputs)
    except (KeyError, ValueError, TypeError, ArithmeticError) as error:
        raise CheckpointError(
            f"the rope block {dict(block)} cannot be computed: {type(error).__name__} {error}",
            code="rope_block_invalid",
            where={"field": "rope_parameters", "rope_type": block.get("rope_type")},
        ) from error


def _pairs(shipped: Block, inputs: RotationInputs, in_force: Rotation | None) -> tuple[RopePair, ...]:
    width = inputs.head_dim if shipped["rope_type"] == "proportional" else inputs.rotary_dim
    plain = {"rope_type": "default", "rope_theta": shipped["rope_theta"]}
    rates = _computed(plain, replace(inputs, rotary_dim=width)).rates
    scaled = in_force.rates if in_force is not None else (None,) * len(rates)
    sections = shipped.get("mrope_section")
    axes: tuple[int | None, ...] = (None,) * len(rates)
    if sections and len(sections) == 3 and sum(sections) == len(rates):
        axes = mrope_axes(sections, interleaved=bool(shipped.get("mrope_interleaved")))
    return tuple(
        RopePair(
            index=index,
            rate=rate,
            wavelength=_turn(rate),
            scaled_rate=new,
            scaled_wavelength=_turn(new),
            ratio=None if new is None else new / rate,
            axis=axis,
        )
        for index, (rate, new, axis) in enumerate(zip(rates, scaled, axes, strict=True))
    )


def _turn(rate: float | None) -> float | None:
    return 2 * math.pi / rate if rate else None
