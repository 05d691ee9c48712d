"""``serve``: nothing starts that the plan forbids, Ctrl-C ends it well, a dying server is an error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from tests.cli import records
from tests.cli.conftest import Calls, Invoke

from ropewalk import core
from ropewalk.cli import serve, servers, stop
from ropewalk.errors import EngineFailedError
from ropewalk.planner.records import Plan
from ropewalk.serving.detached import DetachedServer
from ropewalk.serving.records import EngineBuild
from ropewalk.serving.report import PrintedBuffer, ServerReport
from ropewalk.units import GIB

DETACHED = DetachedServer(
    "Qwen3-8B", "http://127.0.0.1:8000", 41, 40, "1", "vllm serve", 131072, "/tmp/engine.log",
    "2026-11-30T15:49:00+00:00",
)  # fmt: skip
BUILD = EngineBuild("vllm", "vllm", "0.33.0", "/usr/bin/vllm")


class FakeServer:
    """A server that is ready, and then ends as it is told."""

    base_url = "http://127.0.0.1:8000"
    ready_seconds = 12.3
    findings = ()
    log_path = Path("engine.log")
    report = ServerReport(
        "Qwen3-8B", 131072, 1, 131088, (PrintedBuffer("kv_cache", "CUDA0", 18 * GIB, 5_000_000),)
    )

    def __init__(self, end: BaseException) -> None:
        self.end = end
        self.spec = SimpleNamespace(port=8000)
        self.stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped = True

    def require_alive(self) -> None:
        raise self.end


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, planned: Calls, tmp_path: Path) -> list[FakeServer]:
    """The servers started; each ends by Ctrl-C unless a test replaces ``end``."""
    servers: list[FakeServer] = []

    def start(spec: Any, **options: Any) -> FakeServer:
        servers.append(FakeServer(KeyboardInterrupt()))
        return servers[-1]

    monkeypatch.setattr(serve, "start", start)
    monkeypatch.setattr(serve, "pick_engine", lambda engine, path: BUILD)
    return servers


def test_the_page_has_plan_and_reality_and_ctrl_c_ends_it_well(
    started: list[FakeServer], invoke: Invoke, tmp_path: Path
) -> None:
    outcome = invoke("serve", "Qwen3-8B", "--context", "128k", "--log", str(tmp_path / "log"))
    assert outcome.status == 0
    assert outcome.out.startswith("READY      http://127.0.0.1:8000/v1 after 12 s")
    assert "131,072 tokens planned · 131,072 reported · 1 of 1 sequences" in outcome.out
    kv_cache = next(line.split() for line in outcome.out.splitlines() if "KV cache" in line)
    assert kv_cache[-2:] == ["18.00", "18.00"]
    assert outcome.err.splitlines()[-1] == "stopped"
    assert started[0].stopped


@pytest.mark.parametrize("plan", [records.too_large(), records.refused()])
def test_nothing_is_started_where_the_plan_says_no(
    plan: Plan, started: list[FakeServer], invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "plan", lambda source, **options: plan)
    outcome = invoke("serve", "Qwen3-8B", "--context", "128k")
    assert outcome.status == 1
    assert outcome.out.startswith(("DOES NOT FIT", "REFUSED"))
    assert started == []


def test_a_server_that_dies_is_an_engine_error(
    started: list[FakeServer], invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dying = FakeServer(EngineFailedError("vllm ended with status 1 while it served: out of memory"))
    monkeypatch.setattr(serve, "start", lambda spec, **options: dying)
    outcome = invoke("serve", "Qwen3-8B", "--context", "128k", "--log", str(tmp_path / "log"))
    assert outcome.status == 4
    assert "out of memory" in outcome.err
    assert dying.stopped


def test_an_interrupt_while_it_starts_is_130(
    started: list[FakeServer], invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def start(spec: Any, **options: Any) -> FakeServer:
        raise KeyboardInterrupt

    monkeypatch.setattr(serve, "start", start)
    outcome = invoke("serve", "Qwen3-8B", "--context", "128k", "--log", str(tmp_path / "log"))
    assert outcome.status == 130
    assert outcome.err.splitlines()[-1] == "ropewalk: interrupted"


def test_detach_leaves_it_running_and_says_how_to_stop_it(
    started: list[FakeServer], invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    left: list[FakeServer] = []

    def leave(server: FakeServer) -> DetachedServer:
        left.append(server)
        return DETACHED

    monkeypatch.setattr(serve, "leave_running", leave)
    outcome = invoke("serve", "m", "--context", "128k", "--detach", "--log", str(tmp_path / "log"))
    assert outcome.status == 0
    assert left == started
    assert "stop       ropewalk stop 8000" in outcome.out
    assert outcome.err.splitlines()[-1] == "left running as process 41"


def test_what_was_left_running_is_listed(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "detached_servers", lambda: (DETACHED,))
    lines = invoke("servers").out.splitlines()
    assert lines[1].split() == [
        *("Qwen3-8B", "http://127.0.0.1:8000/v1", "131,072", "41", "2026-11-30", "15:49"),
    ]
    assert lines[2] == "log of Qwen3-8B: /tmp/engine.log"
    data = json.loads(invoke("servers", "--json").out)
    assert data["schema"] == "ropewalk.servers/1"
    assert data["servers"][0]["context_len"] == 131072


def test_nothing_left_running(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "detached_servers", lambda: ())
    assert "ropewalk serve --detach" in invoke("servers").out


def test_stop_ends_the_server_that_is_named(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[DetachedServer] = []
    monkeypatch.setattr(stop, "find_detached", lambda name: {"8000": DETACHED}[name])
    monkeypatch.setattr(stop, "stop_detached", stopped.append)
    outcome = invoke("stop", "8000")
    assert (outcome.status, stopped) == (0, [DETACHED])
    assert outcome.err == "stopped Qwen3-8B on port 8000\n"


def test_a_shorter_context_than_planned_is_seen_on_the_page(
    started: list[FakeServer], invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = FakeServer(KeyboardInterrupt())
    server.report = replace(server.report, context_len=40960)
    monkeypatch.setattr(serve, "start", lambda spec, **options: server)
    outcome = invoke("serve", "Qwen3-8B", "--context", "128k", "--log", str(tmp_path / "log"))
    assert "131,072 tokens planned · 40,960 reported" in outcome.out
