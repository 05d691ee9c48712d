"""Losses in the whole loop, against servers in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.measuring.test_measure import Bench, bench

from ropewalk.errors import UsageError
from ropewalk.measuring import events
from ropewalk.measuring.measure import MeasureSettings
from ropewalk.measuring.records import ArmResult, Measurement

__all__ = ["bench"]  # a fixture
LONG = 11_000
BOTH = MeasureSettings(lengths=(600, LONG), depths=(0.5,), probes=("loss", "copy", "recall"))
BREAKS: list[dict[str, Any]] = [{}, {}, {"breaks_at": 9000}]


def arm_of(run: Measurement, name: str) -> ArmResult:
    return next(arm for arm in run.arms if arm.arm == name)


def test_unscaled_breaks_and_the_verdict_says_where(bench: Bench) -> None:
    bench.faults = BREAKS
    run = bench.measure(BOTH)
    assert run.status == "finished"
    assert (run.trained_len, [text.name for text in run.texts]) == (8192, ["prose"])
    assert [[curve.probe for curve in arm.losses] for arm in run.arms] == [
        ["loss"], ["loss", "copy"], ["loss", "copy"]
    ]  # fmt: skip
    assert arm_of(run, "shipped").losses[0].bins[-1].end == 2048  # as far as the shortest prompt
    assert arm_of(run, "yarn:1.5").losses[0].bins[-1].end == 12_288
    assert run.comparison is not None
    pair = next(p for p in run.comparison.losses if (p.arm, p.other) == ("yarn:1.5", "unscaled"))
    assert pair.inside is not None
    assert pair.beyond is not None
    assert pair.inside.mean == 0
    assert pair.beyond.mean == pytest.approx(7 / 11)  # 7 of 11 stops beyond 8,192 are beyond 9,000
    assert run.comparison.recommended == "yarn:1.5"
    assert run.comparison.loss_verdict is not None
    assert "unscaled loses 0.64 nats per token more than YaRN 1.5" in run.comparison.loss_verdict
    agree = [finding for finding in run.findings if finding.code == "losses_agree"]
    assert [finding.where["pairs"] for finding in agree] == [16]


def test_questions_find_their_haystack_in_the_cache(bench: Bench) -> None:
    """One prefill carries the losses and the needles: the questions come right after the text."""
    run = bench.measure(BOTH)
    asked = [trial for trial in bench.store.trials(run.run_id) if trial.length == LONG]
    served = [trial for trial in asked if trial.outcome != "refused"]
    assert [trial.outcome for trial in served] == ["hit", "hit"]
    assert all(trial.cached_tokens and trial.cached_tokens > LONG - 700 for trial in served)
    speed = [point.length for point in arm_of(run, "yarn:1.5").speed]
    assert speed == [600, 10_752]  # of a prompt on its own, and of the text up to its last stop


def test_time_left_counts_the_text_once(bench: Bench) -> None:
    bench.measure(BOTH)
    told = [
        event.progress for event in bench.heard if isinstance(event, events.LossesRead | events.TrialEnded)
    ]
    assert all(one.done_tokens <= one.total_tokens for one in told)
    assert told[-1].done_tokens == told[-1].total_tokens
    assert told[-1].seconds_left == 0
    first = told[0].total_tokens
    assert 2 * LONG < first < 2 * LONG + 4000  # two long arms, one short


def test_a_run_cut_off_between_two_stops_goes_on_there(bench: Bench) -> None:
    heard = 0

    def stop_after_ten(event: events.Event) -> None:
        nonlocal heard
        if isinstance(event, events.LossesRead):
            heard += 1
            if heard == 10:
                raise KeyboardInterrupt

    settings = MeasureSettings(lengths=(LONG,), probes=("loss",))
    cut = bench.measure(settings, arms=("yarn:1.5",), on_event=stop_after_ten)
    assert cut.arms[0].losses[0].bins[0].tokens == 56
    assert (cut.status, len(bench.store.losses(cut.run_id))) == ("interrupted", 10)
    done = bench.measure(settings, resume=cut.run_id)
    assert (done.run_id, done.status) == (cut.run_id, "finished")
    spans = bench.store.losses(cut.run_id)
    assert [span.start for span in spans] == list(range(256, LONG - 8 - 44, 256))
    again = bench.measure(settings, resume=cut.run_id)
    assert (len(bench.servers), again.status) == (2, "finished")  # nothing left: no server is started


def test_another_text_does_not_go_into_the_same_run(bench: Bench, tmp_path: Path) -> None:
    text = tmp_path / "own.txt"
    text.write_text("It was a bright cold day in April. " * 200)
    settings = MeasureSettings(lengths=(900,), probes=("loss",), texts=(str(text),))
    run = bench.measure(settings, arms=("shipped",))
    assert [(one.name, one.tokens) for one in run.texts] == [("own.txt", 900)]
    assert [span.start for span in bench.store.losses(run.run_id)] == [256, 512, 768]
    text.write_text("Somebody else wrote this. " * 200)
    bench.store.update(run)
    with bench.store._guard():  # one of its losses is lost, so that the run is not done
        bench.store._db.execute("DELETE FROM losses WHERE position = (SELECT max(position) FROM losses)")
    with pytest.raises(UsageError) as told:
        bench.measure(settings, resume=run.run_id)
    assert told.value.code == "run_not_resumable"


def test_several_texts_are_read_one_after_the_other(bench: Bench, tmp_path: Path) -> None:
    names = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.txt"
        path.write_text(f"This is {name} of them. " * 300)
        names.append(str(path))
    settings = MeasureSettings(lengths=(900,), probes=("loss",), texts=tuple(names))
    run = bench.measure(settings, arms=("shipped", "unscaled"))
    assert [text.name for text in run.texts] == ["one.txt", "two.txt"]
    assert len({text.sha256 for text in run.texts}) == 2
    assert run.comparison is not None
    (pair,) = run.comparison.losses
    assert (pair.pairs, pair.is_equal) == (2 * 3 * 8, True)


def test_a_sweep_names_the_factor_that_loses_least_and_what_each_costs(bench: Bench) -> None:
    """Planted: 1.5 breaks beyond 9,000 tokens, 2.25 costs half a nat everywhere."""
    bench.faults = [{}, {"breaks_at": 9000}, {}, {"adds": 0.5}, {"adds": 0.5}]
    settings = MeasureSettings(lengths=(LONG,), probes=("loss",))
    run = bench.measure(settings, arms=("shipped", "yarn:sweep"))
    assert [arm.arm for arm in run.arms] == ["shipped", "yarn:1.5", "yarn:1.875", "yarn:2.25", "yarn:3"]
    assert run.comparison is not None
    costs = run.comparison.factors
    assert [cost.arm for cost in costs] == ["yarn:1.875", "yarn:2.25", "yarn:3", "yarn:1.5"]
    assert costs[0].beyond is None
    assert costs[1].beyond is not None
    assert costs[1].beyond.mean == pytest.approx(0.5)
    assert [round(cost.inside.mean, 6) for cost in costs if cost.inside] == [0, 0.5, 0.5, 0]
    assert "of 4 factors YaRN 1.875 loses least there" in str(run.comparison.loss_verdict)


def test_a_sweep_needs_something_to_stretch(bench: Bench) -> None:
    with pytest.raises(UsageError, match="beyond the trained context, which is 8,192 tokens here"):
        bench.measure(MeasureSettings(lengths=(900,)), arms=("yarn:sweep",), target=4096)
