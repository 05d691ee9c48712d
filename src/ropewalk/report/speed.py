"""The curve fitted to an arm's prefill times, as points of a plot."""

from __future__ import annotations

from ropewalk.measuring.records import ArmResult

_STEPS = 40
_MIN_POINTS = 2  # points that make a line


def rate_curve(arm: ArmResult) -> tuple[tuple[float, float], ...]:
    """Tokens per second by length along the fitted curve, from the shortest timed to the longest."""
    fit = arm.speed_fit
    if fit is None:
        return ()
    first, last = arm.speed[0].length, fit.longest_len
    lengths = (first + (last - first) * step / _STEPS for step in range(_STEPS + 1))
    return tuple((length, length / fit.seconds(length)) for length in lengths)


def planned_curve(arm: ArmResult) -> tuple[tuple[float, float], ...]:
    """Tokens per second by length as the plan's operations grow, from the rate of the shortest prompt timed.

    Empty below two lengths. Linear layers and attention are taken to run at one rate: where they do not, the
    line and the measured shapes part.
    """
    flops = {one.length: one.prefill.linear_flops + one.prefill.attention_flops_causal for one in arm.work}
    timed = [point for point in arm.speed if point.length in flops]
    if len(timed) < _MIN_POINTS:
        return ()
    first = timed[0]
    per_flop = first.prefill_seconds / flops[first.length]
    return tuple((point.length, point.length / (flops[point.length] * per_flop)) for point in timed)
