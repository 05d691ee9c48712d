"""The inverse of the memory formula: the longest context and the most sequences within a budget."""

from __future__ import annotations

from collections.abc import Callable

# No engine counts tokens or sequences beyond 32 bits.
_CEILING = 2**31 - 1


def largest(needs: Callable[[int], int], limit: int, *, guess: int) -> int | None:
    """The largest count for which ``needs(count) <= limit``; None where even one is too much.

    ``needs`` must not fall as its argument grows. It is nearly linear between the engine's rounding
    steps, so the secant through the bracket finds the neighbourhood in a few calls and bisection ends it.
    """
    low, need_low = 1, needs(1)
    if need_low > limit:
        return None
    high = max(2, guess)
    need_high = needs(high)
    while need_high <= limit:
        if high >= _CEILING:
            return _CEILING
        low, need_low = high, need_high
        high = min(2 * high, _CEILING)
        need_high = needs(high)
    return _close(needs, limit, low, need_low, high, need_high)


def _close(
    needs: Callable[[int], int], limit: int, low: int, need_low: int, high: int, need_high: int
) -> int:
    """Shrink ``low`` (fits) and ``high`` (does not) until they are neighbours."""
    halve = False
    while high - low > 1:
        if halve:
            middle = (low + high) // 2
        else:
            middle = low + (limit - need_low) * (high - low) // (need_high - need_low)
            middle = min(max(middle, low + 1), high - 1)
        before = high - low
        need = needs(middle)
        if need <= limit:
            low, need_low = middle, need
        else:
            high, need_high = middle, need
        halve = not halve and high - low > before // 2
    return low
