"""Intervals hold what they say, on series whose truth is known."""

from __future__ import annotations

from random import Random

import pytest

from ropewalk.measuring.loss.statistics import (
    Block,
    Estimate,
    leaves_at,
    mean_of,
    rise_of,
    student_quantile,
)


def blocks_of(*means: float, count: int = 4) -> list[Block]:
    return [Block(mean * count, count) for mean in means]


def test_a_mean_is_that_of_the_tokens_and_not_of_the_blocks() -> None:
    estimate = mean_of([Block(10.0, 1), Block(2.0, 3)])
    assert estimate == Estimate(3.0, None, None)  # two blocks have no interval


def test_equal_blocks_have_an_interval_of_no_width() -> None:
    assert mean_of(blocks_of(*[2.5] * 6)) == Estimate(2.5, 2.5, 2.5)
    assert mean_of([]) is None


def test_five_blocks_have_no_interval() -> None:
    assert mean_of(blocks_of(1, 2, 3, 4, 5)) == Estimate(3.0, None, None)
    assert rise_of(blocks_of(*range(5)), blocks_of(*range(9))) == Estimate(-2.0, None, None)


def test_a_known_series_gives_the_same_interval_at_any_time() -> None:
    estimate = mean_of(blocks_of(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0))
    assert estimate is not None
    assert estimate.mean == 4.5
    assert (estimate.low, estimate.high) == (2.25, 6.625)


def test_a_rise_is_the_difference_of_two_means() -> None:
    rise = rise_of(blocks_of(*[3.0] * 6), blocks_of(*[2.5] * 6))
    assert rise == Estimate(0.5, 0.5, 0.5)
    assert rise.turned == Estimate(-0.5, -0.5, -0.5)


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(5, 2.5706), (7, 2.3646), (11, 2.2010), (30, 2.0423), (1000, 1.9623)]
)
def test_quantiles_of_students_t_are_those_of_the_tables(degrees: int, quantile: float) -> None:
    assert student_quantile(degrees) == pytest.approx(quantile, abs=5e-4)


@pytest.mark.parametrize("number", [6, 12])
def test_an_interval_holds_the_truth_as_often_as_it_says(number: int) -> None:
    """Skewed losses (exponential, mean 2.5 nats) whose neighbours are alike: 92 to 98 % of the intervals."""
    dice, held = Random(3), 0
    for _ in range(200):
        shared = (dice.gauss(0, 0.7) for _ in range(number))
        blocks = [Block(sum(dice.expovariate(0.4) + own for _ in range(8)), 8) for own in shared]
        estimate = mean_of(blocks)
        assert estimate is not None
        assert estimate.low is not None
        assert estimate.high is not None
        held += estimate.low <= 2.5 <= estimate.high
    assert 0.92 <= held / 200 <= 0.98


def test_a_curve_leaves_its_base_where_every_later_bin_is_raised() -> None:
    up, level = Estimate(0.5, 0.2, 0.8), Estimate(0.05, -0.1, 0.2)
    assert leaves_at([(8, level), (10, up), (12, up)]) == 10
    assert leaves_at([(8, up), (10, level), (12, up)]) == 12
    assert leaves_at([(8, up), (10, up), (12, level)]) is None
    assert leaves_at([(8, Estimate(0.05, 0.04, 0.06))]) is None  # shown, and less than any text varies
    assert leaves_at([(8, Estimate(2.0, None, None))]) is None  # too few blocks to say
    assert leaves_at([(8, None)]) is None
    assert leaves_at([]) is None
