"""Waits until the engine's log is written: llama.cpp writes it on a thread of its own, and the end of the
process would cut it off, often before the reason for that end."""

from __future__ import annotations

import threading
import time
from pathlib import Path

_TASKS = Path("/proc/self/task")
_POLL_SECONDS = 0.02
_QUIET_POLLS = 3
_MAX_SECONDS = 10.0


def wait_until_written(tasks: Path = _TASKS) -> None:
    """Return once no other thread of this process has had anything to do for some polls.

    A thread that waits for a processor counts as busy, so a loaded machine loses nothing. Where the system
    does not tell (outside Linux), it is a short pause.
    """
    deadline = time.monotonic() + _MAX_SECONDS
    quiet = 0
    while quiet < _QUIET_POLLS and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        quiet = 0 if others_busy(tasks) else quiet + 1


def others_busy(tasks: Path) -> bool:
    """Whether any other thread is running, ready to run or waiting for a disk (R and D in proc(5))."""
    own = str(threading.get_native_id())
    return any(_state(task) in "RD" for task in _listed(tasks) if task.name != own)


def _listed(tasks: Path) -> list[Path]:
    try:
        return list(tasks.iterdir())
    except OSError:
        return []


def _state(task: Path) -> str:
    """The letter after the name, which is in parentheses and may hold some itself; S once it has ended."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "S"
