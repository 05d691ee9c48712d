"""The measure loop with the real embedded engine."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from ropewalk import jsonio
from ropewalk.core import inspect
from ropewalk.engines import EngineBuild
from ropewalk.measuring.measure import MeasureSettings, run_measurement
from ropewalk.measuring.records import ArmResult, Measurement, RecallCell
from ropewalk.measuring.store import RunStore


def measure(
    folder: Path,
    model: Path,
    build: EngineBuild,
    *,
    target: int,
    arms: tuple[str, ...],
    settings: MeasureSettings,
) -> tuple[Measurement, RunStore]:
    store = RunStore(folder / "runs.sqlite3")
    run = run_measurement(
        inspect(model),
        model=str(model),
        build=build,
        context_len=target,
        arms=arms,
        settings=settings,
        store=store,
    )
    return run, store


@pytest.mark.engine
def test_a_small_run_against_the_real_engine(tmp_path: Path, smollm2: Path, embedded: EngineBuild) -> None:
    settings = MeasureSettings(
        lengths=(200, 340), depths=(0.2, 0.8), threads=1, probes=("loss", "recall"), tokens_per_stop=4
    )
    run, store = measure(
        tmp_path, smollm2, embedded, target=512, arms=("shipped", "yarn:2"), settings=settings
    )
    with store:
        trials, losses = store.trials(run.run_id), store.losses(run.run_id)
    assert run.status == "finished"
    assert [finding.code for arm in run.arms for finding in arm.findings if finding.severity == "error"] == []
    short = [trial for trial in trials if trial.length == 340]
    assert {trial.reported_tokens for trial in short} == {340}  # as planned, to the token
    assert {trial.outcome for trial in short} <= {"hit", "miss", "wrong_needle"}
    assert [(trial.cached_tokens or 0) > 250 for trial in short] == [True] * 4  # that whose losses were read
    assert [(span.start, len(span.losses), span.bounds) for span in losses] == [(256, 4, ())] * 2
    assert losses[0].tokens == losses[1].tokens
    assert all(0 < loss < 12 for span in losses for loss in span.losses)
    assert losses[0].losses != losses[1].losses
    first, second = (trial for trial in short if trial.depth == 0.2)
    assert first.prompt_sha256 == second.prompt_sha256
    assert first.first_logprob != second.first_logprob  # the scaling is at work
    for arm in run.arms:
        _plan_is_met(arm)
        assert [point.length for point in arm.speed] == [200]


@pytest.mark.engine
def test_a_run_that_was_killed_goes_on_where_it_stopped(tmp_path: Path, smollm2: Path) -> None:
    command = [
        *(sys.executable, "-m", "ropewalk", "measure", str(smollm2), "--context", "512", "--arm", "shipped"),
        *("--lengths", "300,301,302", "--depths", "0.2,0.8", "--threads", "1", "--json"),
        *("--store", str(tmp_path / "runs.sqlite3")),
    ]
    with RunStore(tmp_path / "runs.sqlite3") as store:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as measuring:
            while not (runs := store.runs()) or runs[0].trials < 2:
                with suppress(subprocess.TimeoutExpired):
                    pytest.fail(f"it ended with {measuring.wait(0.05)}")
            before = store.trials(runs[0].run_id)
            assert store.runs()[0].status == "running"
            measuring.kill()
        assert store.runs()[0].status == "interrupted"
        done = subprocess.run([*command, "--resume", runs[0].run_id], stdout=subprocess.PIPE, text=True)
        resumed = jsonio.loads(Measurement, done.stdout)
        after = store.trials(resumed.run_id)
    assert (resumed.run_id, resumed.status) == (runs[0].run_id, "finished")
    assert after[: len(before)] == before  # nothing is asked twice
    assert [trial.length for trial in after] == [300, 300, 301, 301, 302, 302]


@pytest.mark.engine
@pytest.mark.slow
def test_the_demonstration(tmp_path: Path) -> None:
    """``ropewalk demo``: beyond 8,192 tokens the unscaled model answers with filler, YaRN recalls."""
    report = tmp_path / "report.html"
    command = [sys.executable, "-m", "ropewalk", "demo", "--json", "--html", str(report)]
    done = subprocess.run(
        [*command, "--store", str(tmp_path / "runs.sqlite3")], stdout=subprocess.PIPE, check=True, text=True
    )
    run = jsonio.loads(Measurement, done.stdout)
    assert run.settings["lengths"] == [2048, 12271]
    assert hits(run, "shipped", 2048) >= 3
    assert refused(run, "shipped", 12271) == 5
    assert hits(run, "yarn:1.5", 12271) > hits(run, "unscaled", 12271) == 0
    assert run.comparison is not None
    assert run.comparison.recommended == "yarn:1.5"
    losses = {finding.code for finding in run.findings if finding.code.startswith("losses_")}
    assert "losses_differ_inside" not in losses
    for arm in run.arms:
        _plan_is_met(arm)
    assert "<svg" in report.read_text()


def cells_of(run: Measurement, arm: str, length: int) -> list[RecallCell]:
    return [cell for one in run.arms if one.arm == arm for cell in one.cells if cell.length == length]


def hits(run: Measurement, arm: str, length: int) -> int:
    return sum(cell.hits for cell in cells_of(run, arm, length))


def refused(run: Measurement, arm: str, length: int) -> int:
    return sum(cell.outcomes.get("refused", 0) for cell in cells_of(run, arm, length))


def _plan_is_met(arm: ArmResult) -> None:
    """Planned, printed to its two decimals, and measured to the page."""
    terms = {term.name: term for term in arm.memory}
    for name in ("weights", "kv_cache", "compute_buffer"):
        term = terms[name]
        assert term.planned_bytes is not None
        assert term.printed_bytes is not None
        assert abs(term.planned_bytes - term.printed_bytes) <= 6000  # 0.005 MiB
    cache = terms["kv_cache"]
    if cache.measured_bytes is not None:  # Linux, and above 32 MiB
        assert cache.planned_bytes is not None
        assert 0 <= cache.measured_bytes - cache.planned_bytes <= 2**20
