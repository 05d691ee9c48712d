"""Memory of a running server, seen from outside: anonymous and file-backed bytes apart.

Anonymous memory is caches, compute buffers and heap; file-backed memory is the weights that were mapped and
touched. One number for both would count pages that the system may drop, and shared pages twice.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ropewalk.serving.host.devices import gpu_bytes
from ropewalk.serving.process.processes import descendants

SAMPLE_SECONDS = 0.2
_REST = 9  # a walk over the pages of a large server takes long and holds it up: a tenth of the time at most
_FIELD = re.compile(r"^Pss_(Anon|File|Shmem):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Resident:
    """Resident bytes of a process tree; pages shared by n processes count 1/n in each (Linux PSS).

    ``anon_bytes`` includes shared memory that no file backs: workers keep caches there too.
    """

    anon_bytes: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class MemorySample:
    """Memory of the server's process tree at one moment, anonymous and file-backed apart.

    ``gpu_bytes`` is what the driver counts for it on NVIDIA devices, at the named moments; None where it does
    not tell.
    """

    moment: str  # "loaded", "ubatch", "longest", or "t=12.3" while it fills
    anon_bytes: int
    file_bytes: int
    seconds: float
    gpu_bytes: int | None = None


def resident(pid: int) -> Resident | None:
    """Resident memory of a process and all its descendants; None where the system does not tell.

    From ``/proc/PID/smaps_rollup`` (Linux 4.14; the Pss_ fields since 5.9). Other systems have no such
    division: None.
    """
    found = [one for one in map(_of_process, (pid, *descendants(pid))) if one]
    if not found:
        return None
    return Resident(
        anon_bytes=sum(one.anon_bytes for one in found), file_bytes=sum(one.file_bytes for one in found)
    )


class MemorySampler:
    """Samples a process tree from a thread of its own while it is used as a context manager.

    ``samples`` grow as ``t=SECONDS``; :meth:`mark` adds one with a name at once. Empty where the system
    does not tell.
    """

    def __init__(self, pid: int, *, interval_seconds: float = SAMPLE_SECONDS) -> None:
        self._pid = pid
        self._interval = interval_seconds
        self._began = time.monotonic()
        self._samples: list[MemorySample] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def samples(self) -> tuple[MemorySample, ...]:
        """All samples so far, in order of time."""
        return tuple(self._samples)

    def mark(self, moment: str) -> MemorySample | None:
        """Take a sample now and name it; None where the system does not tell."""
        return self._take(moment)

    def _run(self) -> None:
        cost = 0.0
        while not self._stop.wait(max(self._interval, _REST * cost)):
            began = time.monotonic()
            self._take(None)
            cost = time.monotonic() - began

    def _take(self, moment: str | None) -> MemorySample | None:
        seen, seconds = resident(self._pid), time.monotonic() - self._began
        if seen is None:
            return None
        sample = MemorySample(
            moment=moment or f"t={seconds:.1f}",
            anon_bytes=seen.anon_bytes,
            file_bytes=seen.file_bytes,
            seconds=seconds,
            gpu_bytes=gpu_bytes({self._pid, *descendants(self._pid)}) if moment else None,
        )
        self._samples.append(sample)
        return sample


def _of_process(pid: int) -> Resident | None:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # gone, not ours, or not Linux
        return None
    fields = {name: int(count) * 1024 for name, count in _FIELD.findall(text)}
    if "Anon" not in fields:
        return None
    return Resident(anon_bytes=fields["Anon"] + fields.get("Shmem", 0), file_bytes=fields.get("File", 0))


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


_HEAD = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+ *(?P<path>.*)$")
_RESIDENT = re.compile(r"^Rss:\s+(\d+) kB$")


@dataclass(frozen=True, slots=True)
class Region:
    """``path`` is empty for anonymous memory, and in brackets for the heap and the stack."""

    path: str
    resident_bytes: int


def mappings(pid: int) -> tuple[Region, ...]:
    """All mappings with their resident bytes (RSS: shared pages count in full); empty if not told."""
    try:
        lines = Path(f"/proc/{pid}/smaps").read_text().splitlines()
    except OSError:  # gone, not ours, or not Linux
        return ()
    return tuple(_read(lines))


def _read(lines: list[str]) -> Iterator[Region]:
    path = ""
    for line in lines:
        if head := _HEAD.match(line):
            path = head["path"].removesuffix(" (deleted)")
        elif resident := _RESIDENT.match(line):
            yield Region(path, int(resident[1]) * 1024)


def resident_of_files(found: Sequence[Region], suffix: str) -> int | None:
    """Resident bytes of all mapped files with this suffix; None where there is none."""
    sizes = [mapping.resident_bytes for mapping in found if mapping.path.endswith(suffix)]
    return sum(sizes) if sizes else None


def largest_anonymous(found: Sequence[Region]) -> int | None:
    """Resident bytes of the anonymous mapping that has the most; None where there is none."""
    return max((mapping.resident_bytes for mapping in found if not mapping.path), default=None)
