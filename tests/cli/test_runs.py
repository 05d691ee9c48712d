"""``runs``: listed, shown, exported, forgotten; all from a store of its own."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli import records
from tests.cli.conftest import Invoke

from ropewalk.measuring.records import Trial
from ropewalk.measuring.store import RunStore

RUN = records.smollm2_measurement()


@pytest.fixture
def store(tmp_path: Path) -> str:
    """One finished run of three arms with one trial."""
    path = tmp_path / "runs.sqlite3"
    trial = Trial(
        key="k", arm="shipped", task="niah_single", length=1945, depth=0.5, seed=7, prompt_sha256="00",
        expected=("1234567",), answer="1234567", outcome="hit", reported_tokens=1945, cached_tokens=0,
        prefill_seconds=5.0,
    )  # fmt: skip
    with RunStore(path) as runs:
        runs.create(RUN)
        for position, arm in enumerate(RUN.arms):
            runs.save_arm(RUN.run_id, arm, position=position)
        runs.add_trial(RUN.run_id, trial)
    return str(path)


def test_the_list(store: str, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    outcome = invoke("runs", "--store", store)
    assert outcome.status == 0
    heads, first = (" ".join(line.split()) for line in outcome.out.splitlines()[:2])
    assert heads == "run made (UTC) status checkpoint tokens arms trials"
    assert first.startswith(f"{RUN.run_id} 2026-11-30 15:49 finished SmolLM2-135M-Ins")
    assert " 12,288 shipped, yarn:1.5, " in first
    assert first.endswith(" 1")
    data = json.loads(invoke("runs", "--store", store, "--json").out)
    assert data["schema"] == "ropewalk.runs/1"
    assert [run["run_id"] for run in data["runs"]] == [RUN.run_id]


def test_an_empty_store_says_how_to_make_a_run(tmp_path: Path, invoke: Invoke) -> None:
    path = str(tmp_path / "none.sqlite3")
    assert "ropewalk measure" in invoke("runs", "--store", path).out
    outcome = invoke("runs", "last", "--store", path)
    assert outcome.status == 2
    assert "no run is stored" in outcome.err


def test_one_run_by_the_beginning_of_its_id_or_as_the_last(store: str, invoke: Invoke) -> None:
    for name in (RUN.run_id[:10], "last"):
        outcome = invoke("runs", name, "--store", store)
        assert outcome.status == 0
        assert "YaRN 1.5" in outcome.out
    record = json.loads(invoke("runs", "last", "--store", store, "--json").out)
    assert record["schema"] == "ropewalk.measurement/1"
    assert record["arms"][0]["cells"][0]["outcomes"] == {"hit": 1}


def test_an_unknown_run_is_wrong_usage(store: str, invoke: Invoke) -> None:
    outcome = invoke("runs", "1999", "--store", store, "--json")
    assert outcome.status == 2
    assert json.loads(outcome.out)["code"] == "run_not_found"
    assert "ropewalk runs" in outcome.err


def test_html_goes_to_the_file_and_nothing_else_out(store: str, tmp_path: Path, invoke: Invoke) -> None:
    target = tmp_path / "report.html"
    outcome = invoke("runs", "last", "--store", store, "--html", str(target))
    assert (outcome.status, outcome.out) == (0, "")
    assert f"wrote {target}" in outcome.err
    assert target.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_file_that_cannot_be_written_is_wrong_usage(store: str, tmp_path: Path, invoke: Invoke) -> None:
    outcome = invoke("runs", "last", "--store", store, "--html", str(tmp_path / "no" / "folder.html"))
    assert outcome.status == 2
    assert "there is no folder" in outcome.err


def test_trials_as_csv_and_the_run_as_markdown(store: str, invoke: Invoke) -> None:
    rows = list(csv.DictReader(io.StringIO(invoke("runs", "last", "--csv", "--store", store).out)))
    assert [(row["arm"], row["outcome"], row["expected"]) for row in rows] == [("shipped", "hit", "1234567")]
    assert invoke("runs", "last", "--markdown", "--store", store).out.startswith("### Recall of SmolLM2")


@pytest.mark.parametrize(
    "options",
    [("--html", "x.html"), ("--csv",), ("last", "--csv", "--json"), ("--delete",), ("last", "last", "--csv")],
)
def test_options_that_make_no_sense_together(options: tuple[str, ...], store: str, invoke: Invoke) -> None:
    assert invoke("runs", *options, "--store", store).status == 2


def test_a_run_is_forgotten_only_after_a_yes(
    store: str, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    for answer in ("n\n", ""):  # no, and nobody there to ask
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        outcome = invoke("runs", "last", "--delete", "--store", store)
        assert outcome.status == 130
        assert f"Forget {RUN.run_id}" in outcome.err
    assert len(json.loads(invoke("runs", "--store", store, "--json").out)["runs"]) == 1
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert invoke("runs", "last", "--delete", "--store", store).status == 0
    assert json.loads(invoke("runs", "--store", store, "--json").out)["runs"] == []


def test_a_run_can_be_forgotten_without_asking(store: str, invoke: Invoke) -> None:
    assert invoke("runs", "last", "--delete", "--yes", "--store", store).status == 0
    assert json.loads(invoke("runs", "--store", store, "--json").out)["runs"] == []


def test_two_runs_side_by_side(store: str, invoke: Invoke) -> None:
    later = replace(RUN, run_id="20261130-1700-0b1c", target_len=16384)
    with RunStore(Path(store)) as runs:
        runs.create(later)
        runs.save_arm(later.run_id, RUN.arms[0], position=0)
        hit = runs.trials(RUN.run_id)[0]
        runs.add_trial(later.run_id, replace(hit, key="1"))
        runs.add_trial(later.run_id, replace(hit, key="2", outcome="miss"))
    outcome = invoke("runs", "20261130-15", "20261130-17", "--store", store)
    assert outcome.status == 0
    assert "target_len  12,288  16,384" in outcome.out
    assert "1 as shipped (8,192)  2 as shipped (8,192)" in outcome.out
    assert "1/1 21–100%" in outcome.out  # Wilson's interval of one hit of one
    assert "1/2" in outcome.out
    data = json.loads(invoke("runs", "20261130-15", "20261130-17", "--store", store, "--json").out)
    assert data["schema"] == "ropewalk.runpair/1"
    (cell,) = data["cells"]
    assert (cell["arm"], cell["one"]["hits"], cell["other"]["trials"]) == ("shipped", 1, 2)
    (pair,) = data["pairs"]  # the same prompt in both
    assert (pair["pairs"], pair["only_arm"], pair["only_other"]) == (1, 1, 0)
    assert "only 1 as shipped: 1, only 2 as shipped: 0" in " ".join(outcome.out.split())


def test_a_run_beside_itself_differs_in_nothing(store: str, invoke: Invoke) -> None:
    assert "nothing that was set" in invoke("runs", "last", "last", "--store", store).out
    assert invoke("runs", "last", "1999", "--store", store).status == 2


def test_a_store_that_is_none_is_an_error_not_a_traceback(tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / "runs.sqlite3"
    path.write_text("this is no database, however long it may be. " * 20)
    outcome = invoke("runs", "--store", str(path))
    assert outcome.status == 2
    assert "cannot be used" in outcome.err


def test_a_report_that_cannot_be_written_is_told_before_the_work(invoke: Invoke, tmp_path: Path) -> None:
    for wrong, why in (("none/report.html", "there is no folder"), (".", "is a folder")):
        outcome = invoke("measure", "model.gguf", "--context", "4k", "--html", str(tmp_path / wrong))
        assert outcome.status == 2
        assert "'--html'" in outcome.err
        assert why in outcome.err
