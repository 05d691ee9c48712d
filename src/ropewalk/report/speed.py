"""The curve fitted to an arm's prefill times, in words and as points of a plot."""

from __future__ import annotations

from collections.abc import Iterable

from ropewalk.measuring.records import ArmResult, SpeedFit
from ropewalk.units import format_tokens

_STEPS = 40
_LEAST = 2  # points that make a line
FIT_HEADS = ("arm", "fixed", "per token", "per token²", "attention's share of the time", "and of the work")


def fit_rows(arms: Iterable[ArmResult]) -> list[list[str]]:
    """A row per arm that has a curve, under ``FIT_HEADS``."""
    return [[arm.label, *_cells(arm.speed_fit)] for arm in arms if arm.speed_fit]


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
    if len(timed) < _LEAST:
        return ()
    first = timed[0]
    per_flop = first.prefill_seconds / flops[first.length]
    return tuple((point.length, point.length / (flops[point.length] * per_flop)) for point in timed)


def _cells(fit: SpeedFit) -> list[str]:
    return [
        f"{fit.seconds_fixed:.2f} s",
        f"{fit.seconds_per_token * 1e3:.3g} ms",
        f"{fit.seconds_per_token_squared * 1e9:.3g} ns",
        f"{_share(fit.attention_share)} at {format_tokens(fit.longest_len)}",
        _share(fit.planned_attention_share),
    ]


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"
