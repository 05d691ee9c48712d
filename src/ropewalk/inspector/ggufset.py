"""A GGUF file, alone or one part of a split set, to a ``Checkpoint``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from ropewalk.errors import CheckpointError, HubError
from ropewalk.findings import Finding
from ropewalk.inspector.gguf import GgufFile, ScalarPlace, parse_gguf
from ropewalk.inspector.records import Checkpoint, CheckpointFile
from ropewalk.inspector.store import FolderStore, Store
from ropewalk.inspector.tensors import TensorTable
from ropewalk.inspector.weights import part_names


def scalar_place(path: Path, key: str) -> ScalarPlace:
    """Where the number of ``key`` lies in a GGUF file. Raises :class:`CheckpointError` where it has none."""
    with FolderStore(path.parent, source=str(path), named=path.name).open(path.name) as cursor:
        places = parse_gguf(cursor).places
    if key not in places:
        raise CheckpointError(
            f"{path.name} has no number {key}", code="gguf_key_missing",
            where={"file": path.name, "field": key},
        )  # fmt: skip
    return places[key]


def read_gguf_set(
    store: Store, name: str, *, folder: Path | None, keep_arrays: Collection[str]
) -> Checkpoint:
    """The whole checkpoint that the file belongs to.

    Its ``path`` is that of part 1, which alone carries the model's keys and which llama.cpp wants to be
    given. A part that is missing or unreadable is a finding.
    """
    names = part_names(name)
    parts: list[GgufFile] = []
    findings: list[Finding] = []
    for part in names:
        if part != name and not store.has(part):
            continue
        try:
            with store.open(part) as cursor:
                parts.append(parse_gguf(cursor, keep_arrays=keep_arrays))
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
        findings=(*findings, *_set_findings(parts, names, table)),
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
