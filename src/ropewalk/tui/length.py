"""Lengths of a model as marks of a slider, and the range that the slider then needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ropewalk.planner.records import Plan
from ropewalk.tui.widgets.slider import Mark
from ropewalk.units import MIB, format_tokens_short

_SHORTEST, _LONGEST = 64, 16 * MIB


def trained_marks(native_context: int | None, supported_context: int | None) -> Iterator[Mark]:
    """What the weights were trained for and, where it is more, what the publisher describes."""
    if native_context:
        yield Mark(native_context, "┬", f"trained {format_tokens_short(native_context)}")
    if supported_context and supported_context != native_context:
        yield Mark(supported_context, "┴", f"published {format_tokens_short(supported_context)}")


def plan_marks(plan: Plan) -> Iterator[Mark]:
    """What fits, the same, and where attention comes to outweigh the rest of the work."""
    longest = plan.fit.max_context_len
    if longest and longest < _LONGEST:
        yield Mark(longest, "╂", f"fits {format_tokens_short(longest)}")
    yield from trained_marks(plan.native_context, plan.supported_context)
    crossover = plan.compute.crossover_len if plan.compute else None
    if crossover and crossover < _LONGEST:
        yield Mark(crossover, "×", f"crossover {format_tokens_short(crossover)}")


def slider_range(marks: Sequence[Mark]) -> tuple[int, int]:
    """From half of the shortest mark, or 1k, to the power of two above the longest, or 1M."""
    values = [round(mark.value) for mark in marks]
    low = min([1024, *(value // 2 for value in values)])
    high = max([MIB, *(2 ** (value - 1).bit_length() for value in values)])
    return max(_SHORTEST, low), min(high, _LONGEST)
