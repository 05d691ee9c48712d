"""A GGUF file, alone or one part of a split set, to a ``Checkpoint``."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from ropewalk.errors import CheckpointError
from ropewalk.findings import Finding
from ropewalk.inspector.cursor import Cursor
from ropewalk.inspector.gguf import GgufFile, ScalarPlace, parse_gguf
from ropewalk.inspector.records import Checkpoint, CheckpointFile
from ropewalk.inspector.store import open_regular
from ropewalk.inspector.tensors import TensorTable
from ropewalk.inspector.weights import part_names


def read_gguf(path: Path, *, keep_arrays: Collection[str] = ()) -> GgufFile:
    """One local file. Raises :class:`CheckpointError`."""
    with open_regular(path) as stream:
        number = stream.fileno()
        cursor = Cursor(
            lambda offset, size: os.pread(number, size, offset), size=os.fstat(number).st_size, file=path.name
        )
        return parse_gguf(cursor, keep_arrays=keep_arrays)


def scalar_place(path: Path, key: str) -> ScalarPlace:
    """Where the number of ``key`` lies in the file; raises :class:`CheckpointError` where there is none."""
    file = read_gguf(path)
    try:
        return file.places[key]
    except KeyError:
        raise CheckpointError(
            f"{path.name} has no number {key}",
            code="gguf_key_missing",
            where={"file": path.name, "field": key},
        ) from None


def open_gguf(path: Path, *, source: str, keep_arrays: Collection[str] = ()) -> Checkpoint:
    """The whole checkpoint that the file belongs to; ``path`` of the result is part 1, which engines want.

    Only part 1 of a split set carries the model's keys. Missing parts are a finding.
    """
    names = part_names(path.name)
    present = [name for name in names if os.path.lexists(path.parent / name)]
    parts = [read_gguf(path.parent / name, keep_arrays=keep_arrays) for name in present]
    table = TensorTable()
    for part in parts:
        table.extend(part.columns, table.add_file(part.file))
    return Checkpoint(
        source=source,
        path=path.parent / names[0],
        format="gguf",
        files=tuple(CheckpointFile(part.file, part.file_bytes) for part in parts),
        tensors=table,
        gguf=parts[0].keys,
        findings=(
            *(finding for part in parts for finding in part.findings),
            *_set_findings(parts, names, table),
        ),
    )


def _set_findings(parts: Sequence[GgufFile], names: Sequence[str], table: TensorTable) -> list[Finding]:
    """What parts and names say of each other."""
    findings = []
    missing = sorted(set(names) - {part.file for part in parts})
    declared = parts[0].keys.get("split.tensors.count")
    if missing:
        of = (
            f"{len(table)} of {declared} tensors are present"
            if declared is not None
            else "the rest is present"
        )
        findings.append(
            Finding(
                "missing_shards",
                "error",
                f"{len(missing)} of {len(names)} parts are missing ({', '.join(missing[:3])}); {of}",
                {"missing_files": missing[:20], "num_missing_files": len(missing),
                 "tensors_present": len(table), "tensors_expected": declared},
            )
        )  # fmt: skip
    elif declared is not None and declared != len(table):
        findings.append(
            _split_mismatch(parts[0].file, "split.tensors.count", declared, len(table), "the parts hold")
        )
    for part in parts:
        findings += _part_findings(part, names)
    if len(set(table.names)) < len(table) and len(parts) > 1:
        findings.append(
            Finding(
                "duplicate_tensor_name",
                "error",
                f"the parts of {names[0]} hold a tensor twice",
                {"file": names[0]},
            )
        )
    return findings


def _part_findings(part: GgufFile, names: Sequence[str]) -> list[Finding]:
    """``split.no`` counts from 0, names from 1; a whole file has neither key."""
    findings = []
    count = part.keys.get("split.count", 1)
    number = part.keys.get("split.no", 0)
    if count != len(names):
        findings.append(_split_mismatch(part.file, "split.count", count, len(names), "the names say"))
    elif names.index(part.file) != number:
        findings.append(
            _split_mismatch(part.file, "split.no", number, names.index(part.file), "the name says")
        )
    return findings


def _split_mismatch(file: str, field: str, declared: Any, found: int, who: str) -> Finding:
    return Finding(
        "split_mismatch",
        "error",
        f"{file}: {field} is {declared}, {who} {found}",
        {"file": file, "field": field, "declared": declared, "found": found},
    )
