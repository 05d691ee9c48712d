"""Who holds memory, of the processes of this machine."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LargeProcess:
    """A process and its resident memory."""

    pid: int
    name: str
    bytes: int


def largest_process() -> LargeProcess | None:
    """The process with the most resident memory, of those that may be looked at; None off Linux."""
    if sys.platform != "linux":
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
