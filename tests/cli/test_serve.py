"""``serve``: nothing starts that the plan forbids, Ctrl-C ends it well, a dying server is an error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli import records
from tests.cli.conftest import Calls, Invoke
from tests.patching import patch_core

from ropewalk import core
from ropewalk.cli import serve
from ropewalk.errors import EngineFailedError
from ropewalk.findings import Finding
from ropewalk.planner.records import NodeLaunch, Plan
from ropewalk.serving.live import Moment, Watch
from ropewalk.serving.preflight import PreflightError, PreflightItem
from ropewalk.serving.process.detached import DetachedServer
from ropewalk.serving.process.group import RunningNode
from ropewalk.serving.records import Topology
from ropewalk.serving.server_report import PrintedBuffer, ServerLoad, ServerReport
from ropewalk.serving.service import ServeSettings, Service
from ropewalk.serving.verify import NOT_VERIFIED, Verification
from ropewalk.units import GIB

DETACHED = DetachedServer(
    "Qwen3-8B", "http://127.0.0.1:8000", 41, 40, "1", "vllm serve", 131072, "/tmp/engine.log",
    "2026-11-30T15:49:00+00:00", ("10.0.0.1", "10.0.0.2"),
)  # fmt: skip
CHECKS = (PreflightItem("port", True, "8000 is free"), PreflightItem("tokenizer", None, "cannot be told"))


class FakeServer:
    """A server that is ready, and then ends as it is told."""

    base_url = "http://127.0.0.1:8000"
    ready_seconds = 12.3
    log_path = Path("engine.log")
    launch = SimpleNamespace(port=8000, nodes=[])
    nodes: tuple[RunningNode, ...] = ()
    report = ServerReport(
        "Qwen3-8B", 131072, 1, 131088, (PrintedBuffer("kv_cache", "CUDA0", 18 * GIB, 5_000_000),)
    )

    def __init__(self, end: BaseException) -> None:
        self.end = end
        self.stopped = False

    def __exit__(self, *_: object) -> None:
        self.stopped = True

    def require_alive(self) -> None:
        raise self.end


class Starter:
    """``start_service``: keeps what it was asked, and gives a server that ends by ``end``."""

    def __init__(self) -> None:
        self.settings: ServeSettings | None = None
        self.server = FakeServer(KeyboardInterrupt())
        self.error: BaseException | None = None
        self.seen: Verification = NOT_VERIFIED

    def __call__(
        self, plan: Plan, inspection: Any, settings: ServeSettings, *, say: Any, on_fill: Any
    ) -> Service:
        self.settings = settings
        if self.error:
            raise self.error
        say("starting vllm 0.33.0")
        server: Any = self.server
        return Service(plan, CHECKS, server, self.seen, (*plan.findings, *self.seen.findings))


@pytest.fixture
def starter(monkeypatch: pytest.MonkeyPatch, planned: Calls) -> Starter:
    """A machine on which Qwen3-8B can be started."""
    starter = Starter()
    monkeypatch.setattr(core, "inspect", lambda source: records.qwen3_8b())
    monkeypatch.setattr(core, "start", starter)
    return starter


def test_the_page_has_plan_and_reality_and_ctrl_c_ends_it_well(starter: Starter, invoke: Invoke) -> None:
    outcome = invoke("serve", "Qwen3-8B", "--context", "128k")
    assert outcome.status == 0
    assert outcome.out.startswith("READY      http://127.0.0.1:8000/v1 after 12 s")
    assert "131,072 tokens planned · 131,072 reported · 1 of 1 sequences" in outcome.out
    kv_cache = next(line.split() for line in outcome.out.splitlines() if "KV cache" in line)
    assert kv_cache[-4:] == ["18.00", "GiB", "18.00", "GiB"]
    assert "✓ port       8000 is free" in outcome.out
    assert "? tokenizer  cannot be told" in outcome.out
    assert "not asked for: --verify" in outcome.out
    assert [line for line in outcome.err.splitlines() if line] == [
        "starting vllm 0.33.0",
        "stopping",
        "stopped",
    ]
    assert starter.server.stopped


def test_settings_of_the_start_arrive(starter: Starter, invoke: Invoke, tmp_path: Path) -> None:
    log = tmp_path / "log"
    invoke(
        *("serve", "m", "--context", "128k", "--port", "0", "--threads", "2", "--verify", "--force"),
        *("--log", str(log), "--ready-timeout", "30", "--host", "0.0.0.0"),
    )
    assert starter.settings == ServeSettings(
        host="0.0.0.0", port=0, threads=2, log_path=log, ready_timeout=30.0, verify=True, force=True
    )


def test_a_plan_that_the_engine_confirmed_says_so(starter: Starter, planned: Calls, invoke: Invoke) -> None:
    assert "confirmed by" not in invoke("serve", "m", "--context", "128k").out
    invoke("serve", "m", "--context", "128k", "--confirm")
    assert [call["confirm"] for call in planned.seen] == [False, True]


def test_machines_of_a_group_arrive(starter: Starter, invoke: Invoke) -> None:
    invoke(
        *("serve", "m", "--context", "128k", "--node-addresses", "10.0.0.1, 10.0.0.2", "--executor", "mp"),
        *("--launcher", "ssh {address}", "--node-program", "/opt/bin/vllm", "--master-port", "29600"),
    )
    assert starter.settings is not None
    assert starter.settings.spread == Topology(
        ("10.0.0.1", "10.0.0.2"), launcher="ssh {address}", program="/opt/bin/vllm", master_port=29600
    )


def test_nodes_are_on_the_page(starter: Starter, invoke: Invoke) -> None:
    nodes = [NodeLaunch(number, f"10.0.0.{number}", "vllm", (), {}, "") for number in range(2)]
    starter.server.launch = SimpleNamespace(port=8000, nodes=nodes)
    starter.server.nodes = (RunningNode(0, "10.0.0.0", 4242, Path("engine.log")),)
    lines = [line.split() for line in invoke("serve", "m", "--context", "128k").out.splitlines()]
    assert ["nodes", "node", "0", "10.0.0.0", "process", "4242", "engine.log"] in lines
    assert ["node", "1", "10.0.0.1", "started", "by", "hand,", "not", "watched"] in lines


def test_what_was_verified_is_on_the_page(starter: Starter, invoke: Invoke) -> None:
    starter.seen = Verification(131068, 61.0, 0.31, ())
    out = invoke("serve", "m", "--context", "128k", "--verify").out
    assert "131,068 tokens filled in 1 min 1 s" in out
    assert "scaling is active (log-probability changed by 0.31)" in out


def test_what_does_not_hold_is_stopped_and_is_a_verdict(starter: Starter, invoke: Invoke) -> None:
    starter.seen = Verification(
        None, None, None, (Finding("context_not_held", "error", "it answered nothing"),)
    )
    outcome = invoke("serve", "m", "--context", "128k", "--verify", "--detach")
    assert outcome.status == 1
    assert "stopping: it does not hold what was planned" in outcome.err
    assert starter.server.stopped


def test_on_a_terminal_the_lines_below_the_page_follow_it(
    starter: Starter, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = [Moment("busy", 61, ServerLoad(1, 2, 0.25, None, 1100, 40), 380.4, None, None)]
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(
        Watch, "look", lambda watch: moments.pop() if moments else starter.server.require_alive()
    )
    monkeypatch.setattr(serve, "_LOOK_SECONDS", 0)
    outcome = invoke("serve", "m", "--context", "128k")
    assert outcome.status == 0
    for words in ("busy · for 1 min 1 s", "1 running · 2 waiting", "25.0% in use", "reads 380 tokens/s"):
        assert words in outcome.out


@pytest.mark.parametrize("plan", [records.too_large(), records.refused()])
def test_nothing_is_started_where_the_plan_says_no(
    plan: Plan, starter: Starter, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "plan", lambda source, **options: plan)
    outcome = invoke("serve", "Qwen3-8B", "--context", "128k")
    assert outcome.status == 1
    assert outcome.out.startswith(("DOES NOT FIT", "REFUSED"))
    assert starter.settings is None


def test_what_is_known_to_fail_is_a_verdict(starter: Starter, invoke: Invoke) -> None:
    starter.error = PreflightError((PreflightItem("port", False, "8000 is taken"),))
    outcome = invoke("serve", "Qwen3-8B", "--context", "128k")
    assert outcome.status == 1
    assert "not started: port: 8000 is taken" in outcome.err


def test_a_server_that_dies_is_an_engine_error(starter: Starter, invoke: Invoke) -> None:
    starter.server = FakeServer(EngineFailedError("vllm ended with status 1 while it served: out of memory"))
    outcome = invoke("serve", "Qwen3-8B", "--context", "128k")
    assert outcome.status == 4
    assert "out of memory" in outcome.err
    assert starter.server.stopped


def test_an_interrupt_while_it_starts_is_130(starter: Starter, invoke: Invoke) -> None:
    starter.error = KeyboardInterrupt()
    outcome = invoke("serve", "Qwen3-8B", "--context", "128k")
    assert outcome.status == 130
    assert outcome.err.splitlines()[-1] == "ropewalk: interrupted"


def test_a_shorter_context_than_planned_is_seen_on_the_page(starter: Starter, invoke: Invoke) -> None:
    starter.server.report = replace(starter.server.report, context_len=40960)
    out = invoke("serve", "Qwen3-8B", "--context", "128k").out
    assert "131,072 tokens planned · 40,960 reported" in out


def test_detach_leaves_it_running_and_says_how_to_stop_it(
    starter: Starter, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "detach", lambda service: DETACHED)
    outcome = invoke("serve", "m", "--context", "128k", "--detach")
    assert outcome.status == 0
    assert "stop       ropewalk stop 8000" in outcome.out
    assert outcome.err.splitlines()[-1] == "running in the background, PID 41"


def test_what_was_left_running_is_listed(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_core(monkeypatch, "running_servers", lambda: (DETACHED,))
    lines = invoke("servers").out.splitlines()
    assert lines[1].split() == [
        *("Qwen3-8B", "http://127.0.0.1:8000/v1", "131,072", "41", "2026-11-30", "15:49"),
    ]
    assert lines[2] == "log of Qwen3-8B: /tmp/engine.log, nodes at 10.0.0.1, 10.0.0.2"
    data = json.loads(invoke("servers", "--json").out)
    assert data["schema"] == "ropewalk.servers/1"
    assert data["servers"][0]["context_len"] == 131072


def test_nothing_left_running(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_core(monkeypatch, "running_servers", lambda: ())
    assert "ropewalk serve --detach" in invoke("servers").out


def test_stop_ends_the_server_that_is_named(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[DetachedServer] = []
    monkeypatch.setattr(core, "find_server", lambda name: {"8000": DETACHED}[name])
    monkeypatch.setattr(core, "stop_server", stopped.append)
    outcome = invoke("stop", "8000")
    assert (outcome.status, stopped) == (0, [DETACHED])
    assert outcome.err == "stopped Qwen3-8B on port 8000\n"
