"""The curve of an arm's timings, beside what the plan says."""

from __future__ import annotations

import pytest

from ropewalk.measuring.assemble import fit_speed
from ropewalk.measuring.records import SpeedPoint
from ropewalk.planner.records import Decode, Prefill, PromptWork


def point(length: int, seconds: float) -> SpeedPoint:
    return SpeedPoint(length, seconds, length / seconds, None)


def test_linear_and_square_parts_are_told_apart() -> None:
    points = [point(n, 0.25 + 1e-3 * n + 5e-8 * n**2) for n in (2000, 8000, 20000)]
    work = [PromptWork(20000, Prefill(30, 60, 10), Decode(1, 1))]
    fit = fit_speed(points, work)
    assert fit is not None
    assert fit.seconds_fixed == pytest.approx(0.25)
    assert fit.seconds_per_token == pytest.approx(1e-3)
    assert fit.seconds_per_token_squared == pytest.approx(5e-8)
    assert fit.attention_share == pytest.approx(0.5)  # 5e-8 x 20000^2 = 20 s beside 1e-3 x 20000 = 20 s
    assert fit.planned_attention_share == 0.25  # 10 / (10 + 30)
    assert fit.seconds(20000) == pytest.approx(40.25)


def test_two_lengths_are_no_curve() -> None:
    assert fit_speed([point(1000, 1.0), point(2000, 2.0)], ()) is None
    assert fit_speed([], ()) is None


def test_without_a_planned_length_its_share_is_unknown() -> None:
    fit = fit_speed([point(n, n / 500) for n in (500, 1000, 2000)], ())
    assert fit is not None
    assert (fit.attention_share, fit.planned_attention_share) == (0.0, None)
