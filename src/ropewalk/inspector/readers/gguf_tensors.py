"""The tensor section of a GGUF file to columns, with what llama.cpp would refuse about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from math import prod
from operator import mul
from struct import Struct
from sys import intern
from typing import Any

from ropewalk.findings import Finding
from ropewalk.inspector.readers.cursor import Cursor
from ropewalk.inspector.readers.ggml_types import GGML_TYPES
from ropewalk.inspector.readers.layout import Fault, gather
from ropewalk.inspector.tensors import Columns, Shape
from ropewalk.inspector.wording import clip
from ropewalk.limits import MAX_NAME_CHARS

MAX_DIMS = 4  # GGML_MAX_DIMS
NAME_BYTES = 64  # GGML_MAX_NAME, with the closing NUL
_INT64_MAX = 2**63 - 1
_LARGEST = 2**59  # elements or bytes: eight bytes for each, and all sums still fit in 64 bits


@dataclass(slots=True)
class _Row:
    """One tensor; ``nbytes`` is None where its type is unknown or its rows hold no whole blocks."""

    name: str
    type_name: str
    shape: Shape
    nbytes: int | None
    offset: int


def read_tensors(cursor: Cursor, count: int, *, alignment: int) -> tuple[Columns, tuple[Finding, ...]]:
    """Read ``count`` tensors at the cursor; the data section starts at the next multiple of ``alignment``.

    Shapes are turned row-major (GGUF stores the innermost dimension first). A tensor of unknown type is
    given the bytes up to the next one. Raises :class:`CheckpointError` ``gguf_malformed`` or
    ``header_length_exceeds_file``.
    """
    rows = [_row(cursor) for _ in range(count)]
    data_bytes = cursor.size - _aligned(cursor.position, alignment)
    faults = chain(_faults(rows, alignment=alignment), _cut(rows, data_bytes=data_bytes))
    findings = gather(faults, file=cursor.file, says=_SAYS)
    _fill_unknown(rows, data_bytes=data_bytes)
    columns = Columns(
        names=[row.name for row in rows],
        dtypes=[row.type_name for row in rows],
        shapes=[row.shape for row in rows],
        nbytes=[row.nbytes or 0 for row in rows],
        offsets=[row.offset for row in rows],
    )
    return columns, tuple(findings)


def _row(cursor: Cursor) -> _Row:
    name = cursor.text("tensor name", limit=MAX_NAME_CHARS, too_long="tensor_name_too_long")
    num_dims = cursor.u32()
    if num_dims > MAX_DIMS:
        raise cursor.malformed(f"{clip(name)} has {num_dims} dimensions; ggml knows {MAX_DIMS}")
    *dims, kind, offset = cursor.unpack(Struct(f"{cursor.order}{num_dims}QIQ"))
    largest = max(accumulate(dims, mul), default=1)  # also on the way to a zero, as llama.cpp multiplies
    if largest > _LARGEST or max(dims, default=0) > _INT64_MAX or offset > _LARGEST:
        raise cursor.malformed(f"{clip(name)} has the impossible shape {dims} or offset {offset}")
    known = GGML_TYPES.get(kind)
    shape = tuple(reversed(dims))
    if known is None:
        return _Row(name, f"type {kind}", shape, None, offset)
    row_len = dims[0] if dims else 1
    whole = row_len % known.block_len == 0
    nbytes = prod(dims) // known.block_len * known.block_bytes if whole else None
    return _Row(name, known.name, shape, nbytes, offset)


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _faults(rows: Sequence[_Row], *, alignment: int) -> Iterator[Fault]:
    """llama.cpp wants each tensor where the one before it ends, rounded up (gguf.cpp, ``offset`` check)."""
    expected: int | None = 0
    names: set[str] = set()
    for row in rows:
        where: dict[str, Any] = {"tensor": row.name}
        if row.name in names:
            yield "duplicate_tensor_name", where
        names.add(row.name)
        if len(row.name.encode()) >= NAME_BYTES:
            yield "tensor_name_too_long", where | {"limit": NAME_BYTES - 1}
        if expected is not None and row.offset != expected:
            code = "hole_in_data" if row.offset > expected else "overlapping_ranges"
            yield code, where | {"offset": row.offset, "expected_offset": expected}
        if row.nbytes is None:
            code = "unknown_dtype" if row.type_name.startswith("type") else "size_mismatch"
            yield code, where | {"dtype": row.type_name, "shape": list(row.shape)}
            expected = None
            continue
        expected = _aligned(row.offset + row.nbytes, alignment)


def _cut(rows: Sequence[_Row], *, data_bytes: int) -> Iterator[Fault]:
    """Data that should be there and is not. The padding after the last tensor may lack."""
    ends = [row.offset + (row.nbytes or 0) for row in rows]
    if ends and max(ends) > data_bytes:
        first = next(row for row, end in zip(rows, ends, strict=True) if end > data_bytes)
        yield (
            "truncated_payload",
            {
                "first_incomplete_tensor": first.name,
                "expected_payload_bytes": max(ends),
                "actual_payload_bytes": max(data_bytes, 0),
            },
        )


_SAYS = {
    "duplicate_tensor_name": "{tensor} is listed twice",
    "tensor_name_too_long": "{tensor} has a name of more than {limit} bytes, which llama.cpp refuses",
    "hole_in_data": "{tensor} starts at {offset}, not at {expected_offset} where the one before it ends",
    "overlapping_ranges": "{tensor} starts at {offset}, before {expected_offset} where the previous one ends",
    "unknown_dtype": "{tensor} has the ggml {dtype}, which llama.cpp b11549 does not know",
    "size_mismatch": "{tensor} ({dtype} {shape}) has rows that are no whole number of blocks",
    "truncated_payload": "cut: the tensors take {expected_payload_bytes} bytes, {actual_payload_bytes} are "
    "there; the first incomplete one is {first_incomplete_tensor}",
}


def _fill_unknown(rows: Sequence[_Row], *, data_bytes: int) -> None:
    """Give a tensor of unknown size the bytes up to the next tensor, or to the end of the file."""
    ends = sorted({row.offset for row in rows} | {max(data_bytes, 0)})
    following = dict(pairwise(ends))
    for row in rows:
        row.type_name = intern(row.type_name)
        if row.nbytes is None:
            row.nbytes = max(following.get(row.offset, row.offset) - row.offset, 0)
