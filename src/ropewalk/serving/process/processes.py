"""Processes as the operating system lists them: who descends from whom, and how to end them all.

The supervisor imports this and starts before every engine, so only what costs next to nothing is imported
here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable

_LINUX = sys.platform == "linux"
_POLL_SECONDS = 0.02


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


def start_time(pid: int) -> str | None:
    """When the process began, in the system's own form: with the id it names one process for good."""
    if _LINUX:
        fields = _stat(pid)
        return fields[19] if fields else None  # starttime, proc_pid_stat(5)
    listing = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return listing.stdout.strip() or None


def pid_space() -> str:
    """Within what a process id names one process: this boot of this machine, and the PID namespace in it.

    One word, ``BOOTnNAMESPACE``, from ``/proc`` (Linux); elsewhere ``n``, since a machine has one there.
    Containers beside each other share a boot and not a namespace; a folder of an NFS home is seen from
    several of both.
    """
    if not _LINUX:
        return "n"
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip().replace("-", "")
    return f"{boot}n{os.readlink('/proc/self/ns/pid').strip('pid:[]')}"


def is_of_earlier_boot(host: str, space: str) -> bool:
    """Whether that was this machine before it was started anew, so that no process of it can be left."""
    return host == os.uname().nodename and space.partition("n")[0] != pid_space().partition("n")[0]


def process_token() -> str:
    """This process, named for good in one word: its id, when it began, within what, and whose it is."""
    return f"{os.getpid()}-{_moment(os.getpid())}-{pid_space()}u{os.getuid()}"


def has_ended(token: str) -> bool:
    """Whether the process of a :func:`process_token` is gone; False where that cannot be seen from here: of
    another machine, another PID namespace, another user, or a token that says none of these."""
    pid, began, where = (*token.split("-"), "", "", "")[:3]
    if not pid.isdigit() or where != f"{pid_space()}u{os.getuid()}":
        return False
    return not (is_alive(int(pid)) and _moment(int(pid)) == began)


def _moment(pid: int) -> str:
    return "".join(filter(str.isalnum, start_time(pid) or ""))


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each process; one that is gone already is no error."""
    for pid in pids:
        try:  # noqa: SIM105 - contextlib is one import more
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def wait_until(happened: Callable[[], bool], seconds: float) -> bool:
    """Wait at most so long for something to happen; whether it has."""
    deadline = time.monotonic() + seconds
    while not (has_happened := happened()) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return has_happened


def describe_exit_status(status: int) -> str:
    """An exit status for a person; a signal is reported as -n (of a child) or 128 + n (as a shell has it)."""
    number = status - 128 if status > 128 else -status
    if number <= 0:
        return f"with status {status}"
    try:
        return f"by {signal.Signals(number).name}"
    except ValueError:
        return f"with status {status}"


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
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
