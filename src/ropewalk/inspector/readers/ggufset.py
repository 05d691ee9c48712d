"""A GGUF file, alone or one part of a split set, to a ``Checkpoint``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from ropewalk.errors import CheckpointError, HubError
from ropewalk.findings import Finding
from ropewalk.inspector.readers.gguf import GgufFile, KnownArrays, ScalarPlace, parse_gguf
from ropewalk.inspector.readers.store import FolderStore, Store
from ropewalk.inspector.readers.weights import part_names
from ropewalk.inspector.records import Checkpoint, CheckpointFile
from ropewalk.inspector.tensors import TensorTable, too_large
from ropewalk.inspector.wording import MAX_NAMED, clip, some
from ropewalk.limits import MAX_FILES


def read_gguf_file(path: Path) -> GgufFile:
    """One file as it is, whatever set it belongs to. Raises :class:`CheckpointError`."""
    with FolderStore(path.parent, source=str(path), named=path.name).open(path.name) as cursor:
        return parse_gguf(cursor)


def scalar_place(path: Path, key: str) -> ScalarPlace:
    """Where the number of ``key`` lies in a GGUF file. Raises :class:`CheckpointError` where it has none."""
    places = read_gguf_file(path).places
    if key not in places:
        raise CheckpointError(
            f"{path.name} has no number {key}", code="gguf_key_missing",
            where={"file": path.name, "field": key},
        )  # fmt: skip
    return places[key]


def read_gguf_set(
    store: Store,
    name: str,
    *,
    folder: Path | None,
    keep_arrays: Collection[str],
    known: KnownArrays | None = None,
) -> Checkpoint:
    """The whole checkpoint that the file belongs to; ``known`` is :func:`parse_gguf`'s.

    Its ``path`` is that of part 1, which alone carries the model's keys and which llama.cpp wants to be
    given. A part that is missing or unreadable is a finding.
    """
    names = part_names(name)
    if len(names) > MAX_FILES:
        raise too_large(name, "parts", len(names), MAX_FILES)
    missing = [part for part in names if part != name and not store.has(part)]
    parts: list[GgufFile] = []
    findings: list[Finding] = []
    for part in sorted(set(names) - set(missing)):
        try:
            parts.append(_read(store, part, keep_arrays, known))
        except CheckpointError as error:
            if part == name or isinstance(error, HubError):
                raise
            findings.append(Finding(error.code, "error", error.message, error.where))
    table = TensorTable()
    for file in parts:
        table.extend(file.columns, table.add_file(file.file))
        findings += file.findings
    return Checkpoint(
        source=store.source,
        path=None if folder is None else folder / names[0],
        format="gguf",
        files=tuple(CheckpointFile(file.file, file.file_bytes) for file in parts),
        tensors=table,
        gguf=parts[0].keys,
        findings=(*findings, *_set_findings(parts, names, missing, table)),
    )


def _read(store: Store, part: str, keep_arrays: Collection[str], known: KnownArrays | None) -> GgufFile:
    """One part; with what is known of others only where that leaves no doubt."""
    if known:
        try:
            with store.open(part) as cursor:
                found = parse_gguf(cursor, keep_arrays=keep_arrays, known=known)
        except HubError:
            raise
        except CheckpointError:
            pass
        else:
            if not found.findings:
                return found
    with store.open(part) as cursor:
        return parse_gguf(cursor, keep_arrays=keep_arrays, known={} if known else known)


def _set_findings(
    parts: Sequence[GgufFile], names: Sequence[str], missing: Sequence[str], table: TensorTable
) -> Iterator[Finding]:
    """What names and parts say of each other; ``split.tensors.count`` is the total over all parts."""
    declared = clip(parts[0].keys.get("split.tensors.count"))
    if missing:
        yield Finding(
            "missing_shards",
            "error",
            f"{len(missing):,} of {len(names):,} parts are missing: {some(missing)}; {len(table):,} of "
            f"{'an unknown number of' if declared is None else declared} tensors are present",
            {
                "missing_files": list(missing[:MAX_NAMED]),
                "num_missing_files": len(missing),
                "tensors_present": len(table),
                "tensors_expected": declared,
            },
        )
    elif declared is not None and declared != len(table) and len(parts) == len(names):
        yield _mismatch(parts[0].file, "split.tensors.count", declared, len(table))
    for part in parts:
        yield from _part_findings(part, names)
    if len(parts) > 1 and len(set(table.names)) < len(table):
        yield Finding(
            "duplicate_tensor_name",
            "error",
            f"a tensor lies in two parts of {names[0]}",
            {"file": names[0], "count": len(table) - len(set(table.names))},
        )


def _part_findings(part: GgufFile, names: Sequence[str]) -> Iterator[Finding]:
    """``split.no`` counts from 0, the names from 1; a file of its own has neither key."""
    number, count = part.keys.get("split.no", 0), part.keys.get("split.count", 1)
    if count != len(names):
        yield _mismatch(part.file, "split.count", count, len(names))
    elif number != names.index(part.file):
        yield _mismatch(part.file, "split.no", number, names.index(part.file))


def _mismatch(file: str, field: str, declared: Any, found: int) -> Finding:
    return Finding(
        "split_mismatch",
        "error",
        f"{file}: {field} is {clip(declared)}, by the files it is {found}",
        {"file": file, "field": field, "declared": clip(declared), "found": found},
    )
