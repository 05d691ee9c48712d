"""A process's memory mappings (Linux): which file or buffer holds how much of its resident memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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
