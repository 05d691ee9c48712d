"""What llama-server's ``--fit`` (on by default) changes of a start: the context where none is given, and the
placement where nothing of it is given.

Read in common/fit.cpp, llama.cpp b11434: first the context is reduced, then layers and experts are placed;
the second ends with a warning in the log alone where the command places anything itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.planner.engines.llama_slots import CELL_PAD
from ropewalk.planner.engines.rules import MemoryModel
from ropewalk.units import MIB

DEFAULT_FLOOR = 4096  # --fit-ctx
DEFAULT_MARGIN = 1024 * MIB  # --fit-target
# What a command places itself with, in the order in which the fit looks at it (common/fit.cpp:463-485).
PLACING_FLAGS = ("--gpu-layers", "--tensor-split", "--override-tensor", "--cpu-moe", "--n-cpu-moe")


@dataclass(frozen=True, slots=True)
class FitEffect:
    """What the fit may change; ``stopped_by`` is the flag that keeps it from placing anything."""

    shrinks_context: bool
    places_layers: bool
    stopped_by: str | None


def fit_effect(
    *, fit: bool, context_given: bool, placed_by: tuple[str, ...], split_mode: str = "layer"
) -> FitEffect:
    """The effect on a command. ``placed_by`` are those of :data:`PLACING_FLAGS` that it has."""
    if not fit or split_mode == "tensor":
        return FitEffect(shrinks_context=False, places_layers=False, stopped_by=None)
    flag = next((flag for flag in PLACING_FLAGS if flag in placed_by), None)
    if flag is None and split_mode == "row":
        flag = "--split-mode"
    return FitEffect(shrinks_context=not context_given, places_layers=flag is None, stopped_by=flag)


def fitted_context(
    model: MemoryModel,
    *,
    longest: int,
    num_sequences: int = 1,
    floor: int = DEFAULT_FLOOR,
    margin: int = DEFAULT_MARGIN,
) -> int:
    """Tokens of the whole cache that the fit leaves of ``longest`` on one device with a budget, its free
    memory: all of it, or what lies on the line between the floor's memory and that of the longest.

    What the process holds beside llama.cpp's own buffers is not part of it, as in the engine.
    """
    target = _free(model, longest) - margin
    used = _used(model, longest, num_sequences)
    if used <= target or longest <= floor:
        return longest
    least = _used(model, floor, num_sequences)
    if target <= least:
        return floor
    context_len = floor + (longest - floor) * (target - least) // (used - least)
    return max(context_len - context_len % CELL_PAD, floor)


def _free(model: MemoryModel, context_len: int) -> int:
    estimated = model.estimate_memory(context_len, 1)
    return min(device.usable_bytes for device in estimated.devices if device.usable_bytes is not None)


def _used(model: MemoryModel, context_len: int, num_sequences: int) -> int:
    """Weights, caches and buffers of the device that has a budget."""
    estimated = model.estimate_memory(-(-context_len // num_sequences), num_sequences)
    device = next(device for device in estimated.devices if device.usable_bytes is not None)
    return sum(term.bytes for term in device.terms if term.name != "process_overhead")
