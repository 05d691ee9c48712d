"""``measure`` and ``demo``: settings by name, progress beside the record, the verdict as a status."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.cli import records
from tests.cli.conftest import Calls, Invoke

from ropewalk import core
from ropewalk.cli.measure import _CAMPAIGN, _SETTINGS
from ropewalk.errors import EngineMissingError
from ropewalk.findings import Finding
from ropewalk.measuring import events
from ropewalk.measuring.cluster.settings import CampaignSettings
from ropewalk.measuring.records import Measurement, Trial
from ropewalk.measuring.settings import MeasureSettings
from ropewalk.report.progress import MeasureProgress

RUN = records.smollm2_measurement()
TRIAL = Trial(
    key="k", arm="shipped", task="niah_single", length=1945, depth=0.5, seed=7, prompt_sha256="00",
    expected=("1234567",), answer="7654321", outcome="wrong_needle", reported_tokens=1945, cached_tokens=0,
    prefill_seconds=5.0,
)  # fmt: skip


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """``core.measure`` tells what a run tells, and answers with the three arms."""
    calls = Calls()

    def measure(source: str | Path, *, on_event: Any, **options: Any) -> Measurement:
        given = {name: value for name, value in options.items() if value is not None}
        calls.seen.append({"source": str(source), **given})
        on_event(events.RunStarted(RUN.run_id, ("shipped",)))
        on_event(events.ArmStarted("shipped", "as shipped", 8192))
        on_event(events.ArmReady("shipped", 1.25, 8192))
        on_event(events.GridChosen((1945, 7885), (0.1, 0.5, 0.9), 1))
        on_event(events.PromptSent("shipped", "niah_single", 1945, 0.5, None))
        on_event(events.TrialEnded(TRIAL, events.Progress(1945, 9830, 75.0)))
        on_event(events.ArmEnded(RUN.arms[0]))
        on_event(events.RunEnded(RUN))
        return RUN

    monkeypatch.setattr(core, "measure", measure)
    return calls


def test_only_what_was_given_is_passed_on(measured: Calls, invoke: Invoke) -> None:
    invoke("measure", "m.gguf", "--context", "12k")
    assert measured.seen == [{"source": "m.gguf", "context_len": 12288, "plan": {}}]


def test_settings_arrive_under_their_own_names(measured: Calls, invoke: Invoke, tmp_path: Path) -> None:
    invoke(
        *("measure", "m.gguf", "--context", "12k", "--arm", "shipped", "--arm", "yarn:1.5", "--trials", "6"),
        *("--lengths", "2k, 7885", "--depths", "0.25,0.75", "--task", "vt", "--seed", "3", "--minutes", "5"),
        *("--no-early-stop", "--cache-type", "q8_0", "--threads", "2", "--resume", "2026"),
        *("--store", str(tmp_path / "runs")),
    )
    assert measured.seen == [
        {
            "source": "m.gguf",
            "context_len": 12288,
            "arms": ("shipped", "yarn:1.5"),
            "trials": 6,
            "lengths": (2048, 7885),
            "depths": (0.25, 0.75),
            "tasks": ("vt",),
            "seed": 3,
            "minutes": 5.0,
            "early_stop": False,
            "threads": 2,
            "resume": "2026",
            "store": tmp_path / "runs",
            "plan": {"cache_type_k": "q8_0", "cache_type_v": "q8_0"},
        }
    ]


def test_a_place_and_its_options_make_a_campaign(measured: Calls, invoke: Invoke) -> None:
    invoke("measure", "m.gguf", "--context", "12k", "--on", "ray://head:10001")
    invoke(
        *("measure", "m.gguf", "--context", "12k", "--on", "slurm:gpu", "--per-task-gpus", "2"),
        *("--whole-nodes", "--retries", "0", "--task-minutes", "90"),
    )
    assert [call["on"] for call in measured.seen] == [
        CampaignSettings("ray://head:10001"),
        CampaignSettings("slurm:gpu", per_task_gpus=2, retries=0, whole_nodes=True, task_minutes=90),
    ]


@pytest.mark.parametrize("words", [("--retries", "1"), ("--per-task-gpus", "1"), ("--whole-nodes",)])
def test_options_of_a_campaign_need_a_place(measured: Calls, invoke: Invoke, words: tuple[str, ...]) -> None:
    outcome = invoke("measure", "m.gguf", "--context", "12k", *words)
    assert outcome.status == 2
    assert f"{words[0]} is for a campaign: say where with --on" in outcome.err
    assert measured.seen == []


def test_the_options_are_those_of_a_campaign() -> None:
    assert set(_CAMPAIGN) == {field.name for field in fields(CampaignSettings)}


def test_a_place_that_is_none_is_wrong_usage(invoke: Invoke, smollm2: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "runs.sqlite3")
    outcome = invoke("measure", str(smollm2), "--context", "1k", "--on", "k8s", "--store", store)
    assert outcome.status == 2
    assert "'k8s' is no place to measure on" in outcome.err


def test_the_settings_are_those_of_a_measurement() -> None:
    assert set(_SETTINGS) <= {field.name for field in fields(MeasureSettings)}


def test_progress_is_beside_the_record(measured: Calls, invoke: Invoke) -> None:
    outcome = invoke("measure", "m.gguf", "--context", "12k", "--json")
    assert json.loads(outcome.out)["run_id"] == RUN.run_id
    assert outcome.err.splitlines() == [
        "--context 12k = 12,288 tokens",
        f"run {RUN.run_id}; resume with --resume {RUN.run_id}",
        "as shipped: 8,192 tokens served after 1.2 s",
        "asking at 1,945, 7,885 tokens, 3 depths, 1 haystack",
        "      1,945  x",
    ]


def test_a_campaign_says_what_came_back_from_where() -> None:
    text = StringIO()
    with MeasureProgress(Console(file=text, width=100)) as progress:
        progress(events.CampaignStarted("Ray, 2 nodes, 2 CPUs, 0 GPUs", 2))
        progress(events.TaskEnded("yarn:2", "YaRN 2", 1, None, "the worker died", 0, 2))
        progress(events.TaskEnded("shipped", "as shipped", 1, "a (10.9.0.1)", None, 1, 2))
        progress(events.TaskEnded("yarn:2", "YaRN 2", 2, "b (10.9.0.2)", "port 80 is in use", 2, 2))
    assert text.getvalue().splitlines() == [
        "2 tasks on Ray, 2 nodes, 2 CPUs, 0 GPUs",
        "0 of 2  YaRN 2: lost: the worker died",
        "1 of 2  as shipped: back from a (10.9.0.1)",
        "2 of 2  YaRN 2: lost on b (10.9.0.2), attempt 2: port 80 is in use",
    ]


def test_the_report_is_written_beside_the_page(measured: Calls, invoke: Invoke, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    outcome = invoke("measure", "m.gguf", "--context", "12k", "--html", str(target))
    assert outcome.out.startswith("verdict ")
    assert target.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(("rows", "positive"), [("####.", False), ("#####", True)])
def test_the_bar_is_85_percent_at_the_longest_length_judged(rows: str, positive: bool) -> None:
    cells = [records.cell(8000, place / 4, mark) for place, mark in enumerate(rows)]
    refused = records.cell(16000, 0.5, "R")
    run = replace(RUN, findings=(), arms=(replace(RUN.arms[0], cells=(*cells, refused)),))
    assert core.recalls_enough(run) is positive
    assert not core.recalls_enough(replace(run, status="interrupted"))
    assert not core.recalls_enough(replace(run, findings=(Finding("rope_scaling_inactive", "error", ""),)))


def test_nothing_judged_is_not_positive() -> None:
    assert not core.recalls_enough(replace(RUN, findings=(), arms=()))


def test_a_run_below_the_bar_exits_with_1(measured: Calls, invoke: Invoke) -> None:
    assert invoke("measure", "m.gguf", "--context", "12k").status == 1


def test_an_interrupted_run_is_shown_and_exits_with_130(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = replace(RUN, status="interrupted", comparison=None)
    monkeypatch.setattr(core, "measure", lambda source, **options: run)
    outcome = invoke("measure", "m.gguf", "--context", "12288")
    assert outcome.status == 130
    assert outcome.out.startswith("status     interrupted")
    assert outcome.err == f"ropewalk: interrupted; the same with --resume {RUN.run_id} goes on\n"


def test_a_wrong_list_is_wrong_usage(measured: Calls, invoke: Invoke) -> None:
    outcome = invoke("measure", "m.gguf", "--context", "12k", "--lengths", "2k,many")
    assert outcome.status == 2
    assert "'many' is not a token count" in outcome.err
    assert measured.seen == []


@pytest.fixture
def demonstrable(measured: Calls, planned: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Calls:
    """A machine with the model and an engine."""
    monkeypatch.setattr(core, "inspect", lambda source: records.qwen3_8b())
    monkeypatch.setattr(core, "demo_model", lambda say: tmp_path / "model.gguf")
    monkeypatch.setattr(core, "require_engine", lambda engine: None)
    return measured


def test_demo_shows_each_step_and_ends_well(demonstrable: Calls, invoke: Invoke, tmp_path: Path) -> None:
    target = tmp_path / "demo.html"
    outcome = invoke("demo", "--html", str(target))
    assert outcome.status == 0  # that a small model forgets is the lesson, not a failure
    steps = [line.split()[2] for line in outcome.out.splitlines() if line.startswith("$ ropewalk")]
    assert steps == ["inspect", "plan", "measure"]
    assert demonstrable.seen[0]["arms"] == ("shipped", "yarn:1.5", "unscaled")
    assert target.is_file()
    assert f"ropewalk runs {RUN.run_id}" in outcome.err


def test_demo_json_is_one_document(demonstrable: Calls, invoke: Invoke, tmp_path: Path) -> None:
    outcome = invoke("demo", "--json", "--html", str(tmp_path / "demo.html"))
    assert json.loads(outcome.out)["schema"] == "ropewalk.measurement/1"


def test_demo_without_an_engine_says_what_to_type(
    demonstrable: Calls, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(engine: str) -> None:
        raise EngineMissingError("no llama-server is installed")

    monkeypatch.setattr(core, "require_engine", missing)
    outcome = invoke("demo")
    assert outcome.status == 4
    assert 'pip install "ropewalk[embedded]"' in outcome.err
    assert outcome.out == ""
