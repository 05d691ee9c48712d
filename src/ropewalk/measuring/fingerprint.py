"""Names the weights that were measured, without reading all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from ropewalk.inspector.records import CheckpointFile
from ropewalk.units import MIB

_EDGE = MIB


def fingerprint(model: str, files: tuple[CheckpointFile, ...]) -> str:
    """``sha256:...`` over each file's name, size, first and last MiB; names and sizes for the Hub.

    Left out: a file that differs in the middle only, which conversions and quantisations do not do
    (their headers differ).
    """
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{file.bytes}\0".encode())
        for edge in _edges(Path(model), file):
            digest.update(edge)
    return f"sha256:{digest.hexdigest()}"


def _edges(model: Path, file: CheckpointFile) -> Iterator[bytes]:
    path = next((path for path in (model / file.name, model.parent / file.name) if path.is_file()), None)
    if path is None:
        return
    with path.open("rb") as stream:
        yield stream.read(_EDGE)
        stream.seek(max(0, path.stat().st_size - _EDGE))
        yield stream.read(_EDGE)
