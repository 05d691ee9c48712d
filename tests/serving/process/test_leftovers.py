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
from ropewalk.serving.process.processes import descendants, has_ended, is_alive, pid_space, process_token
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
    pid, began, where = process_token().split("-")
    telling = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", telling],
        env={**os.environ, MARK: f"{pid}-{began}0-{where}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        process.stdout.readline()  # its environment can be read by now
        assert process.pid in pids(find_leftovers())
        process.communicate("")


def test_copies_are_known_by_their_owner(folder: Path) -> None:
    where = process_token().rpartition("-")[2]
    mine, lost = folder / f"ropewalk-{process_token()}-abcd", folder / f"ropewalk-4194305-17-{where}-abcd"
    foreign, elsewhere = folder / f"ropewalk-4194305-17-0n1{where}-abcd", folder / "ropewalk-notes"
    for path in (mine, lost, foreign, elsewhere):
        path.mkdir()
        (path / "model.gguf").touch()
    assert find_leftovers().copies == (lost,)
    clear_leftovers(Leftovers(copies=(lost,)))
    assert [path.exists() for path in (mine, lost, foreign, elsewhere)] == [True, False, True, True]


@pytest.mark.parametrize(
    "where", ["{other_boot}n{namespace}u{uid}", "{boot}n1u{uid}", "{boot}n{namespace}u99", ""]
)
def test_what_is_of_another_machine_namespace_or_user_is_not_touched(where: str) -> None:
    boot, _, namespace = pid_space().partition("n")
    place = where.format(boot=boot, other_boot="0" * 32, namespace=namespace, uid=os.getuid())
    assert not has_ended(f"4194305-17-{place}")
    assert has_ended(f"4194305-17-{pid_space()}u{os.getuid()}")


def test_an_engine_of_a_container_beside_this_one_is_not_a_leftover(tmp_path: Path) -> None:
    """In a PID namespace of its own its supervisor has an id that here names no process, or another one."""
    telling = "import sys; print(flush=True); sys.stdin.read()"
    inside = (
        "import os, subprocess, sys; from ropewalk.serving.process.supervisor import MARK, process_token; "
        f"subprocess.run([sys.executable, '-c', {telling!r}], env={{**os.environ, MARK: process_token()}})"
    )
    unshare = ["unshare", "-p", "-f", "--mount-proc", "--kill-child", *(["-r"] if os.geteuid() else [])]
    argv = [*unshare, sys.executable, "-c", inside]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        if not process.stdout.readline():
            pytest.skip("no namespace can be made here")
        engine = descendants(process.pid)[-1]
        try:
            assert engine not in pids(find_leftovers())
        finally:
            process.communicate(b"")


def test_nothing_is_said_where_nothing_is() -> None:
    assert Leftovers().lines == ()
