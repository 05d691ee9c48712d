"""What stays where ropewalk and its supervisor were both killed: found by a mark, cleared when asked to.

The supervisor marks the environment of the engine with its own process, and whatever the engine begins
inherits the mark: a marked process whose supervisor is gone belongs to nobody. The mark also says on which
boot of which machine, in which PID namespace and whose it is, since nothing can be said from here of the
containers beside this one. Only Linux shows the environment of a process; elsewhere none is found. A
temporary copy carries its owner in the folder's name.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ropewalk.serving.host.process_memory import LargeProcess, process_of
from ropewalk.serving.process.processes import has_ended, is_alive, send, wait_until
from ropewalk.serving.process.supervisor import MARK
from ropewalk.units import format_bytes

_COPY = re.compile(r"ropewalk-(\d+-\w+-\w+)-\w+$")
_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Processes of engines that nobody watches any more, and folders with copies of models."""

    processes: tuple[LargeProcess, ...] = ()
    copies: tuple[Path, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.processes or self.copies)

    @property
    def lines(self) -> tuple[str, ...]:
        """What is there and what clears it, for a person; none where nothing is there."""
        if not self:
            return ()
        processes = (
            f"process {one.pid} ({one.name}, {format_bytes(one.bytes)}) of a server whose watcher was killed"
            for one in self.processes
        )
        copies = (f"{folder}, a copy made for a server that was killed" for folder in self.copies)
        return ("left behind:", *processes, *copies, "`ropewalk stop --leftovers` clears them")


def find_leftovers() -> Leftovers:
    """All that this user's earlier starts left behind."""
    return Leftovers(tuple(_processes()), tuple(_copies()))


def clear_leftovers(found: Leftovers) -> None:
    """End the processes, first kindly, and remove the copies."""
    pids = [process.pid for process in found.processes]
    send(pids, signal.SIGTERM)
    wait_until(lambda: not any(map(is_alive, pids)), _GRACE_SECONDS)
    send([pid for pid in pids if is_alive(pid)], signal.SIGKILL)
    for folder in found.copies:
        shutil.rmtree(folder, ignore_errors=True)


def _processes() -> Iterator[LargeProcess]:
    if sys.platform != "linux":
        return
    for name in os.listdir("/proc"):
        mark = _mark_of(int(name)) if name.isdigit() else None
        if mark and has_ended(mark) and is_alive(int(name)):
            yield process_of(int(name))


def _mark_of(pid: int) -> str | None:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # gone, or another user's
        return None
    marks = (entry for entry in environment.split(b"\0") if entry.startswith(MARK.encode() + b"="))
    return next((entry.decode(errors="replace").partition("=")[2] for entry in marks), None)


def _copies() -> Iterator[Path]:
    for folder in Path(tempfile.gettempdir()).glob("ropewalk-*"):
        match = _COPY.fullmatch(folder.name)
        if match and has_ended(match[1]) and folder.lstat().st_uid == os.getuid():
            yield folder
