"""A folder with several checkpoints: which they are, and what each is in a line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ropewalk.errors import CheckpointError
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.inspector.readers.repository import CONFIG
from ropewalk.inspector.readers.weights import one_of_each
from ropewalk.inspector.records import Checkpoint, CheckpointKind, Format, Inspection

_MAX_LISTED = 200
_MAX_DEPTH = 3
_MAX_ENTRIES = 20_000


@dataclass(frozen=True, slots=True)
class Listed:
    """One checkpoint of a folder; ``name`` is its path below the folder, or the name of its file.

    ``type`` is how most of its weights are stored (``Q4_K``, ``bfloat16``, the method of a quantisation);
    ``bits_per_weight`` is all stored bytes over all parameters. ``error`` is why it cannot be read.
    """

    name: str
    kind: CheckpointKind | None = None
    format: Format | None = None
    architecture: str | None = None
    type: str | None = None
    bits_per_weight: float | None = None
    bytes: int | None = None
    parameters: int | None = None
    num_files: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointList:
    """The checkpoints in and below a folder, or of a repository; ``more`` says that not all are listed."""

    source: str
    checkpoints: tuple[Listed, ...]
    more: bool = False
    schema: str = "ropewalk.checkpoints/1"


def survey(folder: Path) -> CheckpointList:
    """Every checkpoint in a folder and up to three folders below, each from its headers."""
    names = list(names_below(folder))
    chosen = names[:_MAX_LISTED]
    return CheckpointList(
        str(folder), tuple(_listed(folder, name) for name in chosen), more=len(names) > len(chosen)
    )


def names_below(folder: Path) -> Iterator[str]:
    """GGUF models by their first file, other checkpoints by their folder."""
    entries = 0
    for parent, folders, files in os.walk(folder):  # links to folders are not followed
        below = Path(parent).relative_to(folder)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(below.parts) >= _MAX_DEPTH:
            folders.clear()
        entries += len(files)
        if entries > _MAX_ENTRIES:
            return
        yield from (str(below / name) for name in one_of_each(sorted(files)))
        if CONFIG in files or any(name.endswith(".safetensors") for name in files):
            yield str(below)


def _listed(folder: Path, name: str) -> Listed:
    return listed(name, lambda: open_checkpoint(folder / name))


def listed(name: str, read: Callable[[], Checkpoint]) -> Listed:
    """The line of one checkpoint, which ``read`` opens."""
    try:
        found = inspect_checkpoint(read())
    except CheckpointError as error:
        return Listed(name, error=error.message)
    summary = found.checkpoint
    bits = 8 * summary.tensor_bytes / summary.parameters if summary.parameters else None
    return Listed(
        name=name,
        kind=summary.kind,
        format=summary.format,
        architecture=found.value("architecture"),
        type=_type(found),
        bits_per_weight=None if bits is None else round(bits, 2),
        bytes=sum(file.bytes for file in summary.files),
        parameters=summary.parameters,
        num_files=len(summary.files),
    )


def _type(found: Inspection) -> str | None:
    quantization = found.value("quantization")
    if not isinstance(quantization, dict):
        return found.value("dtype") or next(iter(found.checkpoint.dtypes), None)
    method, finer = quantization.get("method"), quantization.get("format")
    return finer if method == "gguf" else method
