from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.measuring.recall.statistics import (
    SPRT_CAP,
    LengthScore,
    drop_power,
    effective_absolute,
    effective_relative,
    mcnemar,
    smallest_detectable_drop,
    sprt,
    wilson,
)


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [
        (10, 10, 0.7225, 1.0),
        (20, 20, 0.8389, 1.0),
        (22, 22, 0.8513, 1.0),  # the fewest all-hit trials for 0.85
        (35, 35, 0.9011, 1.0),
        (73, 73, 0.9500, 1.0),
        (0, 5, 0.0, 0.4345),
        (3, 5, 0.2307, 0.8824),
        (81, 263, 0.2553, 0.3662),  # R. G. Newcombe, Statistics in Medicine 17, 1998, table I
        (15, 148, 0.0624, 0.1605),  # the same
    ],
)
def test_wilson_golden(hits: int, trials: int, low: float, high: float) -> None:
    interval = wilson(hits, trials)
    assert interval is not None
    assert interval == pytest.approx((low, high), abs=5e-5)


def test_no_trials_have_no_interval() -> None:
    assert wilson(0, 0) is None
    for trials in range(1, 61):
        none, every = wilson(0, trials), wilson(trials, trials)
        assert none is not None
        assert every is not None
        assert (none[0], every[1]) == (0.0, 1.0)  # exactly: 2.8e-17 is no bound


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_mirrors(counts: tuple[int, int]) -> None:
    hits, trials = counts
    interval, mirror = wilson(hits, trials), wilson(trials - hits, trials)
    assert interval is not None
    assert mirror is not None
    assert 0 <= interval[0] <= hits / trials + 1e-12
    assert hits / trials - 1e-12 <= interval[1] <= 1
    assert interval[0] == pytest.approx(1 - mirror[1], abs=1e-12)


def test_all_hits_stop_at_15_and_all_misses_at_3() -> None:
    assert sprt(14, 0) == "open"
    assert sprt(15, 0) == "pass"
    assert sprt(0, 2) == "open"
    assert sprt(0, 3) == "fail"


@pytest.mark.parametrize(
    ("recall", "trials", "passes"),
    [(1.0, 15.0, 1.0), (0.95, 21.8, 0.986), (0.85, 35.8, 0.401), (0.7, 16.6, 0.012), (0.0, 3.0, 0.0)],
)
def test_expected_trials_of_the_sequential_test(recall: float, trials: float, passes: float) -> None:
    """Computed over all paths up to the cap, not simulated."""
    paths = {(0, 0): 1.0}
    expected = passed = 0.0
    for trial in range(1, SPRT_CAP + 1):
        longer: dict[tuple[int, int], float] = defaultdict(float)
        for (hits, misses), weight in paths.items():
            longer[hits + 1, misses] += weight * recall
            longer[hits, misses + 1] += weight * (1 - recall)
        ended = {path for path in longer if trial == SPRT_CAP or sprt(*path) != "open"}
        expected += trial * sum(longer[path] for path in ended)
        passed += sum(longer[path] for path in ended if sprt(*path) == "pass")
        paths = {path: weight for path, weight in longer.items() if path not in ended}
    assert expected == pytest.approx(trials, abs=0.05)
    assert passed == pytest.approx(passes, abs=5e-4)


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [(0, 0, 1.0), (3, 0, 0.25), (6, 0, 0.03125), (5, 0, 0.0625), (10, 2, 0.03857421875)],
)
def test_mcnemar_is_exact_and_two_sided(first: int, second: int, p: float) -> None:
    assert mcnemar(first, second) == p
    assert mcnemar(second, first) == p


def test_power_of_paired_trials() -> None:
    assert drop_power(60, base=0.93, drop=0.2) == pytest.approx(0.80, abs=0.01)
    assert drop_power(30, base=0.93, drop=0.3) == pytest.approx(0.73, abs=0.01)
    assert drop_power(200, base=0.93, drop=0.1) == pytest.approx(0.85, abs=0.01)
    assert drop_power(5, base=1.0, drop=1.0) == 0.0  # five discordant pairs are p = 0.0625 at best


def test_smallest_detectable_drop_grows_with_fewer_pairs() -> None:
    drops = [smallest_detectable_drop(pairs) for pairs in (5, 15, 30, 60)]
    assert drops == [None, 0.55, 0.35, 0.2]


def test_effective_context_needs_bound_and_point() -> None:
    scores = [
        LengthScore(1024, 30, 30),
        LengthScore(4096, 22, 22),
        LengthScore(8192, 10, 10),
        LengthScore(16384, 51, 61),
    ]
    assert effective_absolute(scores) == 4096  # 10 of 10 may be 72 %; 51 of 61 is below 85 %
    assert effective_absolute(scores[2:]) is None


def test_relative_context_is_a_share_of_the_own_base() -> None:
    scores = [
        LengthScore(1000, 3, 5),
        LengthScore(2000, 3, 5),
        LengthScore(4000, 2, 5),
        LengthScore(8000, 0, 0),
    ]
    assert effective_relative(scores, base=scores[0]) == 2000
    assert effective_relative(scores, base=LengthScore(1000, 0, 5)) is None
    assert effective_relative(scores, base=None) is None
