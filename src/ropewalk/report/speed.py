"""The curve fitted to an arm's prefill times, in words and as points of a plot."""

from __future__ import annotations

from collections.abc import Iterable

from ropewalk.serving.records import ArmResult, SpeedFit
from ropewalk.units import format_tokens

_STEPS = 40
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
