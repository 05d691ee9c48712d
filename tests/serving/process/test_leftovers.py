"""Processes and copies of starts that were killed with everything that watched them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ropewalk.serving.process.engine_process import EngineProcess
from ropewalk.serving.process.leftovers import Leftovers, clear_leftovers, find_leftovers
from ropewalk.serving.process.processes import is_alive, process_token
from ropewalk.serving.process.supervisor import MARK

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a process shows its environment on Linux")

WORKER = "import signal; signal.pause()"
# An engine whose worker leaves its session, tells its id, and stays.
TELLING = "import os, signal, sys; open(sys.argv[1], 'w').write(str(os.getpid())); signal.pause()"
ENGINE = f"""
import subprocess, sys, signal
subprocess.Popen([sys.executable, "-c", {TELLING!r}, sys.argv[1]], start_new_session=True)
signal.pause()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files of its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def orphan(tmp_path: Path) -> Iterator[int]:
    """The worker of an engine whose supervisor was killed; the engine went with the supervisor."""
    box = tmp_path / "box"
    os.mkfifo(box)
    argv = (sys.executable, "-c", ENGINE, str(box))
    engine = EngineProcess(argv, env=os.environ, log_path=tmp_path / "log", grace_seconds=1.0)
    worker = int(box.read_text())
    os.kill(engine.supervisor_pid, signal.SIGKILL)
    assert engine.wait(10.0)
    yield worker
    if is_alive(worker):
        os.kill(worker, signal.SIGKILL)
    engine.stop()


def pids(found: Leftovers) -> list[int]:
    return [process.pid for process in found.processes]


def test_the_worker_of_a_killed_supervisor_is_found_and_ended(orphan: int) -> None:
    found = find_leftovers()
    assert orphan in pids(found)
    assert f"process {orphan} (python" in found.lines[pids(found).index(orphan) + 1]
    clear_leftovers(Leftovers(tuple(one for one in found.processes if one.pid == orphan)))
    assert not is_alive(orphan)


def test_whose_supervisor_runs_is_nobodys_leftover() -> None:
    process = subprocess.Popen([sys.executable, "-c", WORKER], env={**os.environ, MARK: process_token()})
    try:
        assert process.pid not in pids(find_leftovers())
    finally:
        process.kill()
        process.wait()


def test_a_process_id_that_was_given_again_is_not_the_supervisor() -> None:
    pid, _, began = process_token().partition("-")
    telling = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", telling],
        env={**os.environ, MARK: f"{pid}-{began}0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        process.stdout.readline()  # its environment can be read by now
        assert process.pid in pids(find_leftovers())
        process.communicate("")


def test_copies_are_known_by_their_owner(folder: Path) -> None:
    mine, others = folder / f"ropewalk-{process_token()}-abcd", folder / "ropewalk-4194305-17-abcd"
    elsewhere = folder / "ropewalk-notes"
    for path in (mine, others, elsewhere):
        path.mkdir()
        (path / "model.gguf").touch()
    assert find_leftovers().copies == (others,)
    clear_leftovers(Leftovers(copies=(others,)))
    assert [path.exists() for path in (mine, others, elsewhere)] == [True, False, True]


def test_nothing_is_said_where_nothing_is() -> None:
    assert Leftovers().lines == ()
