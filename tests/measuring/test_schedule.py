from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.measuring.test_compare import trials

from ropewalk.measuring.records import Trial
from ropewalk.measuring.schedule import open_steps, served, tokens_asked
from ropewalk.measuring.settings import MeasureSettings, default_lengths, within_minutes
from ropewalk.planner.pace import Pace, pace_of

SETTINGS = MeasureSettings(lengths=(400, 900), depths=(0.0, 0.25, 0.5, 0.75, 1.0), trials=3, seed=0)


def steps(asked: list[Trial], settings: MeasureSettings = SETTINGS) -> list[tuple[int, int, int, bool]]:
    found = open_steps(settings, settings.lengths or (), asked)
    return [(step.length, step.seed, len(step.depths), step.is_new) for step in found]


def test_short_lengths_first_and_all_depths_before_the_next_haystack() -> None:
    assert steps([]) == [(length, seed, 5, True) for length in (400, 900) for seed in (0, 1, 2)]


def test_a_haystack_half_asked_is_gone_on_with() -> None:
    assert steps(trials("a", {400: "##.###"}))[:2] == [(400, 1, 4, False), (400, 2, 5, True)]


@pytest.mark.parametrize(("row", "closed"), [("....." * 1, True), ("#" * 10, False), ("#" * 15, True)])
def test_the_sequential_test_closes_a_length_between_haystacks(row: str, closed: bool) -> None:
    lengths = {length for length, *_ in steps(trials("a", {400: row}), replace(SETTINGS, trials=12))}
    assert (400 not in lengths) == closed


def test_without_early_stop_every_trial_is_asked() -> None:
    assert (400, 1, 5, True) in steps(trials("a", {400: "....."}), replace(SETTINGS, early_stop=False))


def test_a_refused_length_is_closed() -> None:
    assert {length for length, *_ in steps(trials("a", {900: "RRRRR"}))} == {400}


def test_what_was_asked_and_what_is_left_add_up() -> None:
    settings = replace(SETTINGS, early_stop=False)
    total = sum(step.tokens for step in open_steps(settings, (400, 900), []))
    for count in (1, 4, 5, 6, 13):
        asked = trials("a", {400: "#." * 8})[:count]
        left = sum(step.tokens for step in open_steps(settings, (400, 900), asked))
        assert tokens_asked(asked) + left == total


def test_lengths_served_leave_room_for_the_answer() -> None:
    assert served((400, 900), 917, SETTINGS) == [400, 900]  # 16 answer tokens and one of margin
    assert served((400, 900), 916, SETTINGS) == [400]


@pytest.mark.parametrize(
    ("contexts", "lengths"),
    [
        ([8192, 12288, 12288], (2048, 8175, 12271)),
        ([131072], (2048, 131055)),
        ([1024], (256, 1007)),
    ],
)
def test_default_lengths_are_short_and_the_longest_of_each_arm(
    contexts: list[int], lengths: tuple[int, ...]
) -> None:
    assert default_lengths(contexts, answer_tokens=16) == lengths


def test_pace_learns_and_grows_with_the_square() -> None:
    pace = Pace(linear=1.0, square=0.001)
    assert not pace.is_known
    assert pace.seconds(0, 1000) == 0
    pace.seen(0, 1000, 4.0)  # 1000 + 1000 units of work in 4 s
    pace.seen(980, 1000, 0.5)
    assert pace.seconds(0, 2000) == pytest.approx(12.0)
    assert pace.seconds(1000, 2000) == pytest.approx(8.0)
    assert pace.seconds(1980, 2000) == 0.5


def test_pace_of_a_plan_without_compute_is_linear() -> None:
    pace = pace_of(None, context_len=8192)
    pace.seen(0, 500, 1.0)
    assert pace.seconds(0, 5000) == 10.0


def two_arms(lengths: Sequence[int]) -> list[int]:
    """Served with contexts of 8,192 and 12,288."""
    return [*(length for length in lengths if length <= 8175), *lengths]


@pytest.mark.parametrize(
    ("minutes", "lengths", "rounds"),
    [
        (0.01, (2048,), 1),  # the short length whatever it costs
        (5, (2048, 12271), 1),  # the longest before those between
        (7.6, (2048, 8175, 12271), 1),
        (20, (2048, 8175, 12271), 3),  # 32,717 tokens a round at 100 tokens a second
        (1000, (2048, 8175, 12271), 12),  # the cap of the sequential test: 60 trials a length
    ],
)
def test_a_time_budget_buys_lengths_then_trials(
    minutes: float, lengths: tuple[int, ...], rounds: int
) -> None:
    pace = Pace()
    pace.seen(0, 1000, 10.0)
    settings = MeasureSettings(minutes=minutes, lengths=(2048, 8175, 12271))
    chosen = within_minutes(settings, two_arms, pace)
    assert (chosen.lengths, chosen.trials, chosen.minutes) == (lengths, rounds, None)


def test_the_longest_answer_of_all_tasks_is_reserved() -> None:
    assert MeasureSettings(tasks=("niah_single", "niah_multivalue")).longest_answer == 64
    assert MeasureSettings(answer_tokens=5).longest_answer == 5


@pytest.mark.parametrize(("minutes", "per_stop"), [(100, 8), (10, 4), (5, 2), (1, 2)])
def test_reading_takes_at_most_a_quarter_of_the_time(minutes: float, per_stop: int) -> None:
    pace = Pace()
    pace.seen(0, 1000, 10.0)
    settings = MeasureSettings(minutes=minutes, lengths=(2048, 12271), probes=("loss", "recall"))
    chosen = within_minutes(settings, two_arms, pace, reading=lambda tokens: 37.5 * tokens)
    assert chosen.tokens_per_stop == per_stop


def test_single_tokens_have_a_pace_of_their_own() -> None:
    pace = Pace(linear=1.0, square=0.001)
    pace.seen(0, 1000, 4.0)
    assert pace.reading_seconds(0, 10) == pytest.approx(
        10 * 1.001 * 4 / 2000
    )  # the prefill's, while none was
    pace.read(0, 10, 0.5)
    assert pace.reading_seconds(0, 20) == pytest.approx(1.0)
    assert pace.reading_seconds(1000, 10) == pytest.approx(0.5 * 3.001 / 1.001)
