"""The memory that a container allows, from Linux control groups of both versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """A limit in bytes and what of it is in use, less file pages that the system drops when asked."""

    limit_bytes: int
    used_bytes: int


@dataclass(frozen=True, slots=True)
class _Version:
    """Where one version of control groups keeps its files, and how it names them."""

    mount: str
    limit: str
    usage: str
    droppable: str


_V1 = _Version("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Version("", "memory.max", "memory.current", "inactive_file")


def memory_limits(root: Path = Path("/")) -> tuple[MemoryLimit, ...]:
    """The limits of this process's group and of every group above it; none where nothing is limited."""
    return tuple(limit for folder, version in _folders(root) if (limit := _limit(folder, version)))


def _folders(root: Path) -> Iterator[tuple[Path, _Version]]:
    """Folders from the process's own group upwards. Inside a container the mount is its group already,
    so that the path of the group need not be found below it."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        version = _V2 if not controllers else _V1 if "memory" in controllers.split(",") else None
        if version:
            mount = root / "sys/fs/cgroup" / version.mount
            own = PurePosixPath(group)
            yield from ((mount / path.relative_to("/"), version) for path in (own, *own.parents))


def _limit(folder: Path, version: _Version) -> MemoryLimit | None:
    text = _read(folder / version.limit).strip()
    if not text.isdecimal():  # no such file, or "max"
        return None
    droppable = dict(line.split() for line in _read(folder / "memory.stat").splitlines())
    usage = int(_read(folder / version.usage).strip() or 0)
    return MemoryLimit(int(text), max(usage - int(droppable.get(version.droppable, 0)), 0))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
