"""Whatever happens to the owner, the engine or its workers: nothing is left, and nobody else is touched."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ropewalk.errors import EngineError, EngineFailedError
from ropewalk.serving.process.engine_process import EngineProcess
from ropewalk.serving.process.processes import descendants, is_alive

Run = Callable[..., EngineProcess]
PAUSE = "import signal; signal.pause()"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="waits by pidfd")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Start Python code as an engine; whatever is left of it at the end of the test is stopped."""
    with ExitStack() as stack:

        def start(
            code: str, *, grace_seconds: float = 5.0, log_path: Path = tmp_path / "log"
        ) -> EngineProcess:
            argv = (sys.executable, "-c", code)
            process = EngineProcess(argv, env=os.environ, log_path=log_path, grace_seconds=grace_seconds)
            stack.callback(process.stop)
            return process

        yield start


@pytest.fixture
def letterbox(tmp_path: Path) -> Path:
    """A named pipe: reading it waits until a process of the test has written."""
    path = tmp_path / "letterbox"
    os.mkfifo(path)
    return path


def ends(pid: int, *, seconds: float = 10.0) -> bool:
    """Wait for the end of a process that is nobody's child here."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def test_stop_ends_the_engine(run: Run) -> None:
    process = run(PAUSE)
    assert is_alive(process.pid)
    assert process.ended() is None
    process.stop()
    assert not is_alive(process.pid)
    assert process.ended() == "by SIGTERM"


def test_the_log_has_the_command_and_all_output(run: Run, tmp_path: Path) -> None:
    process = run("import sys; print('out', flush=True); print('err', file=sys.stderr)")
    assert process.wait(10)
    assert process.ended() == "with status 0"
    first, *rest = (tmp_path / "log").read_text().splitlines()
    assert first.startswith(f"# {sys.executable} -c ")
    assert rest == ["out", "err"]


def test_the_status_of_the_engine_is_told(run: Run) -> None:
    process = run("import sys; sys.exit(3)")
    assert process.wait(10)
    assert process.ended() == "with status 3"


def test_an_engine_that_does_not_hear_is_killed(run: Run, letterbox: Path) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    process = run(f"{deaf}; open({str(letterbox)!r}, 'w').close(); {PAUSE}", grace_seconds=0.1)
    letterbox.read_text()
    process.stop()
    assert not is_alive(process.pid)
    assert process.ended() == "by SIGKILL"


@LINUX
def test_a_killed_owner_takes_the_engine_along(tmp_path: Path) -> None:
    code = f"""
import os, pathlib, signal, sys
from ropewalk.serving.process.engine_process import EngineProcess
argv = (sys.executable, "-c", {PAUSE!r})
log_path = pathlib.Path({str(tmp_path)!r}, "log")
process = EngineProcess(argv, env=os.environ, log_path=log_path, grace_seconds=5)
print(process.pid, flush=True)
signal.pause()
"""
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    engine = int(owner.stdout.readline())
    assert is_alive(engine)
    owner.kill()
    owner.communicate()
    assert ends(engine)


@LINUX
def test_a_killed_warden_takes_the_engine_along(run: Run) -> None:
    process = run(PAUSE)
    (supervisor,) = [pid for pid in descendants(os.getpid()) if process.pid in descendants(pid)]
    os.kill(supervisor, signal.SIGKILL)
    assert ends(process.pid)


@LINUX
def test_workers_in_sessions_of_their_own_do_not_outlive_a_killed_engine(run: Run, letterbox: Path) -> None:
    # vllm-project/vllm#55510: the server is killed, its engine core and workers keep the memory.
    child = f"import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', {PAUSE!r}]); "
    worker = f"{child} open({str(letterbox)!r}, 'w').close(); {PAUSE}"
    engine = (
        "import subprocess, sys; "
        f"subprocess.Popen([sys.executable, '-c', {worker!r}], start_new_session=True); {PAUSE}"
    )
    stranger = subprocess.Popen([sys.executable, "-c", PAUSE], start_new_session=True)
    process = run(engine)
    letterbox.read_text()
    family = descendants(process.pid)
    assert len(family) == 2
    os.kill(process.pid, signal.SIGKILL)
    assert all(ends(pid) for pid in family)
    assert process.wait(10)
    assert process.ended() == "by SIGKILL"
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EngineFailedError, match=r"/no/such/engine: No such file"):
        EngineProcess(("/no/such/engine",), env={}, log_path=tmp_path / "log", grace_seconds=1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_noticed_before_the_start(run: Run) -> None:
    with pytest.raises(EngineError, match="No space left on device") as caught:
        run(PAUSE, log_path=Path("/dev/full"))
    assert caught.value.code == "log_unwritable"
    assert caught.value.where == {"file": "/dev/full"}
