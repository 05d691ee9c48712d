"""Tasks in real processes of their own: what becomes of them and of the servers that they start."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ropewalk.core import inspect
from ropewalk.measuring.cluster.backend import Ended
from ropewalk.measuring.cluster.campaign import run_campaign
from ropewalk.measuring.cluster.local import LocalBackend
from ropewalk.measuring.cluster.settings import CampaignSettings, Needs
from ropewalk.measuring.measure import MeasureSettings
from ropewalk.measuring.records import Measurement
from ropewalk.measuring.store import RunStore
from ropewalk.serving.engines import pick_engine
from ropewalk.serving.process.processes import descendants, is_alive

NEEDS = Needs(whole_node=True)
ENGINE = """#!/bin/sh
[ "$1" = --version ] && { echo "version: 1 (never)"; exit; }
echo $$ > {pid}
exec sleep 600
"""


@dataclass(frozen=True, slots=True)
class Stuck:
    """A checkpoint, and an engine that starts and never answers; ``pid`` is the file with its process id."""

    model: Path
    engine: Path
    pid: Path

    def started(self) -> int:
        """The engine's process, as soon as there is one."""
        deadline = time.monotonic() + 60
        while not (self.pid.is_file() and self.pid.read_text().endswith("\n")):
            assert time.monotonic() < deadline, "the engine was not started"
            time.sleep(0.02)
        return int(self.pid.read_text())

    def measure(self, store: RunStore, backend: LocalBackend) -> Measurement:
        """Without an answer ever: what ends it must come from outside."""
        return run_campaign(
            inspect(self.model),
            model=str(self.model),
            build=pick_engine("llama-server", path=str(self.engine)),
            engine_path=str(self.engine),
            context_len=512,
            arms=("shipped",),
            settings=MeasureSettings(lengths=(320,)),
            campaign=CampaignSettings("local", retries=0),
            store=store,
            open_backend=lambda settings, folder: backend,
        )


@pytest.fixture
def stuck(smollm2: Path, tmp_path: Path) -> Stuck:
    engine, pid = tmp_path / "llama-server", tmp_path / "pid"
    engine.write_text(ENGINE.replace("{pid}", str(pid)))
    engine.chmod(0o755)
    return Stuck(smollm2, engine, pid)


def task(key: str, **changes: Any) -> str:
    """As much of a task as a node reads before it refuses one from another version."""
    return json.dumps({"key": key, "attempt": 1, "whole_node": True, "ropewalk": "0.0.1", **changes})


def test_each_task_comes_back_with_its_record() -> None:
    with LocalBackend() as backend:
        backend.submit({"a": task("a"), "b": task("b", attempt=2)}, NEEDS)
        records = [json.loads(backend.next().record or "") for _ in range(2)]
    assert [(record["key"], record["node"]["attempt"]) for record in records] == [("a", 1), ("b", 2)]
    assert {record["finding"]["code"] for record in records} == {"node_version_differs"}


def test_a_task_that_breaks_is_not_lost() -> None:
    with LocalBackend() as backend:
        backend.submit({"a": "{}"}, NEEDS)
        ended = backend.next()
    assert ended.lost is None
    assert "KeyError: 'attempt'" in (ended.failed or "")


def test_a_killed_task_is_lost_and_its_server_ends_with_it(stuck: Stuck, tmp_path: Path) -> None:
    seen: list[int] = []
    with RunStore(tmp_path / "runs.sqlite3") as store:
        backend = LocalBackend()
        killer = threading.Thread(target=_kill_task, args=(stuck, backend, seen))
        killer.start()
        run = stuck.measure(store, backend)
        killer.join()
    (finding,) = (finding for finding in run.arms[0].findings if finding.severity == "error")
    assert finding.code == "task_lost"
    assert finding.message == "given up after 1 attempt: its process ended by SIGKILL"
    assert run.status == "failed"
    assert [is_alive(pid) for pid in seen] == [False]


def test_ctrl_c_ends_the_task_and_its_server(stuck: Stuck, tmp_path: Path) -> None:
    with RunStore(tmp_path / "runs.sqlite3") as store:
        run = stuck.measure(store, _Interrupted(stuck.started))
    assert run.status == "interrupted"
    assert not is_alive(stuck.started())
    assert not any(is_alive(pid) for pid in descendants(os.getpid()))


class _Interrupted(LocalBackend):
    """Ctrl-C while the first server starts."""

    def __init__(self, started: Callable[[], int]) -> None:
        super().__init__()
        self._started = started

    def next(self) -> Ended:
        self._running = self._start()
        self._started()
        raise KeyboardInterrupt


def _kill_task(stuck: Stuck, backend: LocalBackend, seen: list[int]) -> None:
    seen.append(stuck.started())
    assert backend.pid is not None
    os.kill(backend.pid, signal.SIGKILL)
