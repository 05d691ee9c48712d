"""``plan --emit``: to standard output or a file, and nothing for a negative verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli import records
from tests.cli.conftest import Calls, Invoke

from ropewalk import core
from ropewalk.planner.records import Plan

TAKEN = "--engine vllm: not given; the first that serves safetensors (others that read it: transformers)\n"
EMIT = ("plan", "models/Qwen3-8B", "--context", "128k", "--emit")


@pytest.fixture(autouse=True)
def emitted(monkeypatch: pytest.MonkeyPatch, planned: Calls) -> list[tuple[Any, ...]]:
    """``core.emit`` notes what it was asked."""
    asked: list[tuple[Any, ...]] = []

    def emit(plan: Plan, kind: str, *, accelerator: str | None = None) -> str:
        asked.append((plan.checkpoint, kind, accelerator))
        return "the file\n"

    monkeypatch.setattr(core, "emit", emit)
    return asked


def test_the_file_alone_goes_to_standard_output(invoke: Invoke, emitted: list[tuple[Any, ...]]) -> None:
    outcome = invoke(*EMIT, "skypilot", "--accelerator", "H100")
    assert (outcome.status, outcome.out, outcome.err) == (0, "the file\n", TAKEN)
    assert emitted == [("models/Qwen3-8B", "skypilot", "H100")]


def test_a_file_leaves_the_page_where_it_was(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "qwen3.yaml"
    outcome = invoke(*EMIT, "k8s", "--output", str(path))
    assert path.read_text() == "the file\n"
    assert (outcome.status, outcome.err) == (0, f"{TAKEN}wrote {path}\n")
    assert outcome.out.startswith("FITS")
    record = invoke(*EMIT, "k8s", "--output", str(path), "--json")
    assert json.loads(record.out)["schema"] == "ropewalk.plan/1"


@pytest.mark.parametrize("plan", [records.too_large(), records.refused()])
def test_a_negative_verdict_emits_nothing(
    plan: Plan,
    invoke: Invoke,
    emitted: list[tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(core, "plan", lambda source, **options: plan)
    path = tmp_path / "serve.sh"
    refused = invoke(*EMIT, "shell")
    assert (refused.status, refused.out) == (1, "")
    assert "nothing is emitted: " in refused.err
    assert invoke(*EMIT, "shell", "--output", str(path)).status == 1
    assert emitted == []
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--emit", "k8s", "--json"), "--emit and --json both write to standard output"),
        (("--output", "x.yaml"), "add --emit KIND"),
        (("--accelerator", "H100"), "add --emit KIND"),
        (("--emit", "helm"), "'helm' is not one of"),
    ],
)
def test_options_that_make_no_sense_together(
    arguments: tuple[str, ...], complaint: str, invoke: Invoke, planned: Calls
) -> None:
    outcome = invoke("plan", "m", "--context", "4k", *arguments)
    assert outcome.status == 2
    assert complaint in outcome.err
    assert planned.seen == []
