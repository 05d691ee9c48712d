"""Stands between ropewalk and an engine, and ends the engine when either of them goes.

Run as ``python -P -m ropewalk.serving.process.supervisor GRACE_SECONDS PROGRAM ARGUMENT...``. Standard input
is a pipe whose other end the owner holds; its end means that the owner is gone, however it went: ``SIGKILL``
included, on every system, and without regard to the owner's threads (Linux's own parent-death signal follows
the thread that started the child, not the process). An owner that wants to go and leave the engine running
writes a byte first. On Linux the supervisor adopts what the engine leaves behind, so that workers which
outlive their server are ended too (vllm-project/vllm#55510). A supervisor that is itself killed takes the
engine along there; what the engine began is then found by its mark, see
:mod:`ropewalk.serving.process.leftovers`.

The one line on standard output is ``started PID`` or ``failed REASON``; the exit status is the engine's,
128 + n where signal n ended it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

from ropewalk.serving.process.processes import descendants, is_alive, process_token, send, wait_until

MARK = "ROPEWALK_SUPERVISOR"  # in the environment of all that the engine begins
KILL_SECONDS = 5.0  # how long a killed process may take to leave the process table
_TERM_SECONDS = 1.0  # workers that outlive their server had its word to stop already
STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}
_PR_SET_PDEATHSIG = 1  # Linux, include/uapi/linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: Sequence[str]) -> int:
    """Start the engine, wait for a reason to end it, end it; returns its exit status."""
    grace_seconds, *argv = arguments
    signals = signal_pipe()
    _prctl()(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        engine = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            env={**os.environ, MARK: process_token()},
            start_new_session=True,
            preexec_fn=die_with_parent(),  # safe: one thread here
        )
    except OSError as error:
        _tell(f"failed {argv[0]}: {error.strerror}")
        return 127
    _tell(f"started {engine.pid}")
    _wait(engine, signals=signals, owner=sys.stdin.fileno())
    _end(engine, float(grace_seconds))
    return engine.returncode if engine.returncode >= 0 else 128 - engine.returncode


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def signal_pipe() -> int:
    """A descriptor on which each arriving signal can be read as one byte."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    for number in (*STOP_SIGNALS, signal.SIGCHLD):
        signal.signal(number, lambda number, frame: None)
    return readable


def die_with_parent() -> Callable[[], object]:
    """What a child is to call first, so that it is killed when its parent ends; on Linux."""
    prctl = _prctl()
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl() -> Callable[[int, int], object]:
    if sys.platform != "linux":
        return lambda option, value: None
    call: Callable[[int, int], object] = ctypes.CDLL(None).prctl
    return call


def _wait(engine: subprocess.Popen[bytes], *, signals: int, owner: int) -> None:
    """Return when the engine has ended, a stop was asked for, or an owner who did not let go is gone."""
    watched = [signals, owner]
    while engine.poll() is None:
        ready = select.select(watched, [], [])[0]
        if owner in ready:
            if not os.read(owner, 64):
                return
            watched.remove(owner)
        if signals in ready and STOP_SIGNALS & set(os.read(signals, 64)):
            return


def _end(engine: subprocess.Popen[bytes], grace_seconds: float) -> None:
    """Ask the engine to stop, then see to it that nothing it began is left."""
    family = {engine.pid, *descendants(os.getpid())}
    if engine.poll() is None:
        engine.terminate()
        wait_until(lambda: engine.poll() is not None, grace_seconds)
    family.update(descendants(os.getpid()))
    workers = family - {engine.pid}
    send(_living(engine, workers), signal.SIGTERM)
    wait_until(lambda: not _living(engine, workers), _TERM_SECONDS)
    send(_living(engine, family), signal.SIGKILL)
    wait_until(lambda: not _living(engine, family), KILL_SECONDS)


def _living(engine: subprocess.Popen[bytes], family: set[int]) -> list[int]:
    engine.poll()  # reaps it; whatever else was adopted is reaped by init after us
    return [pid for pid in family if is_alive(pid)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
