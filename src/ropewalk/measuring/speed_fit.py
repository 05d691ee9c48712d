"""An arm's timings by prompt length become the curve behind them."""

from __future__ import annotations

from collections.abc import Sequence

from ropewalk.measuring.records import SpeedFit, SpeedPoint
from ropewalk.planner.least_squares import nonnegative
from ropewalk.planner.records import PromptWork

_LEAST_LENGTHS = 3  # as many as the curve has parts


def fit_speed(points: Sequence[SpeedPoint], work: Sequence[PromptWork]) -> SpeedFit | None:
    """Seconds of prefill as ``a + b n + c n^2``, none of them below zero; None for fewer than three lengths.

    ``work`` is what the plan says of the same lengths.
    """
    lengths = [point.length for point in points]
    if len(set(lengths)) < _LEAST_LENGTHS:
        return None
    rows = [(1.0, float(length), float(length) ** 2) for length in lengths]
    fixed, linear, square = nonnegative(rows, [point.prefill_seconds for point in points])
    longest = max(lengths)
    per_token = linear + square * longest
    return SpeedFit(
        seconds_fixed=fixed,
        seconds_per_token=linear,
        seconds_per_token_squared=square,
        longest_len=longest,
        attention_share=square * longest / per_token if per_token else None,
        planned_attention_share=next((one.attention_share for one in work if one.length == longest), None),
    )
