"""Processes as the operating system lists them: who descends from whom, and how to end them all."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_LINUX = sys.platform == "linux"


def descendants(pid: int) -> tuple[int, ...]:
    """Process ids below ``pid``, parents before children; ``pid`` itself is not among them."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents().items():
        children.setdefault(parent, []).append(child)
    found = list(children.get(pid, ()))
    for child in found:  # grows while it is walked
        found.extend(children.get(child, ()))
    return tuple(found)


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie that waits for its parent."""
    if _LINUX:
        return _state(pid) not in (None, "Z", "X")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def birth(pid: int) -> str | None:
    """When the process began, in the system's own form: with the id it names one process for good."""
    if _LINUX:
        fields = _stat(pid)
        return fields[19] if fields else None  # starttime, proc_pid_stat(5)
    listing = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return listing.stdout.strip() or None


def own_mark() -> str:
    """This process, named for good in one word: its id and when it began."""
    return f"{os.getpid()}-{_moment(os.getpid())}"


def lives(mark: str) -> bool:
    """Whether the process of an :func:`own_mark` still runs."""
    pid, _, began = mark.partition("-")
    return pid.isdigit() and is_alive(int(pid)) and _moment(int(pid)) == began


def _moment(pid: int) -> str:
    return re.sub(r"\W", "", birth(pid) or "")


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each process; one that is gone already is no error."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def in_words(status: int) -> str:
    """An exit status for a person; a signal is told by -n (of a child) or 128 + n (as a shell has it)."""
    number = status - 128 if status > 128 else -status
    if number <= 0:
        return f"with status {status}"
    try:
        return f"by {signal.Signals(number).name}"
    except ValueError:
        return f"with status {status}"


@dataclass(frozen=True, slots=True)
class LargeProcess:
    """A process and its resident memory."""

    pid: int
    name: str
    bytes: int


def largest_process() -> LargeProcess | None:
    """The process with the most resident memory, of those that may be looked at; None off Linux."""
    if not _LINUX:
        return None
    sizes = ((_resident_bytes(int(name)), int(name)) for name in os.listdir("/proc") if name.isdigit())
    size, pid = max(sizes)
    return LargeProcess(pid, _name(pid), size) if size else None


def process_of(pid: int) -> LargeProcess:
    """What Linux says of one process."""
    return LargeProcess(pid, _name(pid), _resident_bytes(pid))


def _resident_bytes(pid: int) -> int:
    """From ``/proc/PID/statm``, which costs no walk over the pages."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "gone"


def _parents() -> dict[int, int]:
    """Every process and its parent."""
    return _parents_from_proc() if _LINUX else _parents_from_ps()


def _parents_from_proc() -> dict[int, int]:
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat(int(name))):
            parents[int(name)] = int(fields[1])
    return parents


def _parents_from_ps() -> dict[int, int]:
    listing = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=False)
    pairs = (line.split() for line in listing.stdout.splitlines())
    return {int(pid): int(parent) for pid, parent in pairs}


def _state(pid: int) -> str | None:
    fields = _stat(pid)
    return fields[0] if fields else None


def _stat(pid: int) -> list[str] | None:
    """Fields of ``/proc/PID/stat`` from the state on; the name before them may hold anything."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
