"""Names the weights that were measured, without reading all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ropewalk.inspector.records import CheckpointFile
from ropewalk.units import MIB

_EDGE = MIB


def fingerprint(model: str, files: tuple[CheckpointFile, ...]) -> str:
    """``sha256:...`` over each file's name, size, first and last MiB; names and sizes for the Hub.

    Files that have not changed since are not read again. Left out: a file that differs in the middle only,
    which conversions and quantisations do not do (their headers differ).
    """
    return _digest(files, tuple(_found(Path(model), file) for file in files))


@lru_cache(maxsize=32)
def _digest(files: tuple[CheckpointFile, ...], found: tuple[tuple[Path, int, int] | None, ...]) -> str:
    digest = hashlib.sha256()
    for file, place in zip(files, found, strict=True):
        digest.update(f"{file.name}\0{file.bytes}\0".encode())
        for edge in _edges(place[0]) if place else ():
            digest.update(edge)
    return f"sha256:{digest.hexdigest()}"


def _found(model: Path, file: CheckpointFile) -> tuple[Path, int, int] | None:
    """Where a file is, its size, and when it was changed."""
    for path in (model / file.name, model.parent / file.name):
        if path.is_file():
            status = path.stat()
            return path.absolute(), status.st_size, status.st_mtime_ns
    return None


def _edges(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        yield stream.read(_EDGE)
        stream.seek(max(0, path.stat().st_size - _EDGE))
        yield stream.read(_EDGE)
