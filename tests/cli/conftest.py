"""How the tests call the command line: inside this process, with records instead of checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.cli import records

from ropewalk import core
from ropewalk.cli.app import run
from ropewalk.planner.records import Plan


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command left behind."""

    status: int
    out: str
    err: str


@dataclass(slots=True)
class Calls:
    """What the command asked of ``core``."""

    seen: list[dict[str, Any]] = field(default_factory=list)


Invoke = Callable[..., Outcome]


@pytest.fixture
def invoke(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Run a command line and say how it ended; the page is 100 columns wide."""
    monkeypatch.setenv("COLUMNS", "100")

    def call(*argv: str) -> Outcome:
        status = run(argv)
        captured = capfd.readouterr()
        return Outcome(status, captured.out, captured.err)

    return call


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """``core.plan`` answers with Qwen3-8B on 48 GiB and notes what it was asked."""
    calls = Calls()

    def plan(source: str, **options: Any) -> Plan:
        given = {name: value for name, value in options.items() if value != ()}
        calls.seen.append({"source": source, **given})
        return records.qwen3_plan()

    monkeypatch.setattr(core, "plan", plan)
    return calls
