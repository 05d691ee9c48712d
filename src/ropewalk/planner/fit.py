"""The inverse of the memory formula: the longest context and the most sequences within a budget."""

from __future__ import annotations

from collections.abc import Callable

from ropewalk.planner.engines.rules import MemoryModel, PlanningCase
from ropewalk.planner.records import FitRow, PlanRequest

# No engine counts tokens or sequences beyond 32 bits.
_CEILING = 2**31 - 1

Needs = Callable[[int], int]


def fit_limits(name: str, case: PlanningCase) -> FitRow:
    """The longest context and the most sequences that the request's budget holds, each with the other as
    asked."""
    request, memory_model = case.request, case.memory_model()
    context_len = request.context_len
    max_sequences = largest(
        lambda count: memory_model.shortfall_bytes(context_len, count), 0, guess=request.num_sequences
    )
    most = case.rules.MAX_SEQUENCES
    if max_sequences is not None and most is not None:
        max_sequences = min(max_sequences, most)
    return FitRow(name, longest_fit(request, memory_model), max_sequences)


def longest_fit(request: PlanRequest, memory_model: MemoryModel) -> int | None:
    """The longest context that the request's budget holds; None where not even one token fits."""
    return largest(
        lambda count: memory_model.shortfall_bytes(count, request.num_sequences),
        0,
        guess=request.context_len,
        step=memory_model.step,
    )


def largest(needs: Needs, limit: int, *, guess: int, step: int = 1) -> int | None:
    """The largest count for which ``needs(count) <= limit``; None where even one is too much.

    ``needs`` must not fall as its argument grows. ``step`` is the unit that the engine rounds to: the
    answer is exact whatever it is, and found soonest where ``needs`` rises only after its multiples.
    """
    known: dict[int, int] = {}  # the ends of a bracket are asked for more than once

    def need(count: int) -> int:
        found = known.get(count)
        if found is None:
            found = known[count] = needs(count)
        return found

    if need(1) > limit:
        return None
    ceiling = _CEILING // step
    first = min(max(2, -(-guess // step)), ceiling)
    units = _largest(lambda count: need(count * step), limit, first, ceiling)
    if units == ceiling:
        return _CEILING
    low = max(1, units * step)
    if need(low + 1) > limit:
        return low
    return _close(need, limit, (low + 1, 0), ((units + 1) * step, 1), halve=True)


def _largest(needs: Needs, limit: int, guess: int, ceiling: int) -> int:
    """By the slope from guess to guess until one is too much, then between the last two.

    Memory is nearly linear in the count, so that few guesses do.
    """
    low, need_low = 0, needs(1)
    high, need_high = guess, needs(guess)
    while need_high <= limit:
        if high == ceiling:
            return ceiling
        fit_limits = (limit - need_high) * (high - low) // max(1, need_high - need_low)
        low, need_low = high, need_high
        high = min(high + fit_limits + 1, ceiling)
        need_high = needs(high)
    return _close(needs, limit, (low, need_low), (high, need_high))


def _close(
    needs: Needs, limit: int, fits: tuple[int, int], exceeds: tuple[int, int], *, halve: bool = False
) -> int:
    """Shrink the bracket (counts with their needs) until its ends are neighbours."""
    (low, need_low), (high, need_high) = fits, exceeds
    always = halve
    while high - low > 1:
        width = high - low
        if halve:
            middle = (low + high) // 2
        else:
            middle = low + (limit - need_low) * width // (need_high - need_low)
            middle = min(max(middle, low + 1), high - 1)
        need = needs(middle)
        if need <= limit:
            low, need_low = middle, need
        else:
            high, need_high = middle, need
        halve = always or (not halve and high - low > width // 2)
    return low
