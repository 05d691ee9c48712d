"""Costs are found again in the timings that they made."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.planner.least_squares import nonnegative

LENGTHS = (2048, 8192, 16384, 32768)
ROWS = [(1.0, float(n), float(n) ** 2) for n in LENGTHS]


def times(fixed: float, linear: float, square: float) -> list[float]:
    return [fixed + linear * n + square * n**2 for n in LENGTHS]


@pytest.mark.parametrize("costs", [(0.5, 2e-3, 3e-8), (0.0, 2e-3, 3e-8), (0.0, 0.0, 1e-7), (0.3, 1e-3, 0.0)])
def test_exact_timings_give_their_costs_back(costs: tuple[float, float, float]) -> None:
    assert nonnegative(ROWS, times(*costs)) == pytest.approx(costs, rel=1e-6, abs=1e-15)


def test_a_cost_that_would_be_negative_is_none_and_the_others_make_the_best_of_it() -> None:
    """Lengths 1, 2, 4 in 1, 3, 7 s are 2 n - 1: without a negative part, the least relative error by hand
    is that of n alone, sum(n / t) / sum((n / t)^2), or of n and n^2."""
    rows = [(1.0, n, n**2) for n in (1.0, 2.0, 4.0)]
    fixed, linear, square = nonnegative(rows, [1.0, 3.0, 7.0])
    assert fixed == 0.0
    assert min(linear, square) >= 0

    def error(b: float, c: float) -> float:
        return sum((1 - (b * n + c * n**2) / t) ** 2 for n, t in ((1, 1), (2, 3), (4, 7)))

    steps = (1e-4, -1e-4)
    around = [error(linear + b, square + c) for b in (*steps, 0) for c in (*steps, 0) if square + c >= 0]
    assert error(linear, square) <= min(around) + 1e-12


def test_with_fewer_rows_than_parts_as_many_parts_are_used() -> None:
    rows = ROWS[:2]
    costs = nonnegative(rows, [4.0, 20.0])
    assert [sum(a * b for a, b in zip(row, costs, strict=True)) for row in rows] == pytest.approx([4, 20])
    assert sum(cost > 0 for cost in costs) == 2


def test_a_column_of_nothing_costs_nothing() -> None:
    assert nonnegative([(1.0, 10.0, 0.0), (1.0, 20.0, 0.0)], [12.0, 22.0]) == pytest.approx((2, 1, 0))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.01, 1000), min_size=4, max_size=4))
def test_no_cost_is_ever_negative(seconds: list[float]) -> None:
    assert min(nonnegative(ROWS, seconds)) >= 0
