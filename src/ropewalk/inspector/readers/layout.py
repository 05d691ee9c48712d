"""What is wrong with the byte ranges of one safetensors file: only called where the bulk check failed.

The format: sorted by offset, the ranges cover the data section from 0 to its end without hole, overlap or
alias, and each is as long as its shape and dtype say (safetensors 0.8.0, tensor.rs, ``Metadata::validate``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ropewalk.findings import Finding
from ropewalk.inspector.readers.dtypes import BITS, tensor_bytes
from ropewalk.inspector.tensors import Columns, Shape
from ropewalk.inspector.wording import MAX_NAMED, clip


@dataclass(frozen=True, slots=True)
class Range:
    """One header entry: the range of the data section that it claims, and what it says lies there."""

    start: int
    end: int
    name: str
    dtype: str
    shape: Shape


def layout_findings(columns: Columns, ends: Sequence[int], *, file: str, data_bytes: int) -> list[Finding]:
    """All faults of one file, each kind once, at most ``MAX_NAMED`` places named in each."""
    ranges = list(map(Range, columns.offsets, ends, columns.names, columns.dtypes, columns.shapes))
    ordered = sorted(ranges, key=lambda entry: (entry.start, entry.end))
    faults = chain(_entry_faults(ranges), _neighbour_faults(ordered))
    findings = gather(faults, file=file, says=_SAYS)
    end = max((entry.end for entry in ranges), default=0)
    if end > data_bytes:
        findings.append(_truncated(ranges, end, file=file, data_bytes=data_bytes))
    elif end < data_bytes:
        findings.append(_trailing(end, file=file, data_bytes=data_bytes))
    return findings


Fault = tuple[str, dict[str, Any]]
"""A finding's code, and the place and values for its ``where``."""


def gather(faults: Iterable[Fault], *, file: str, says: Mapping[str, str]) -> list[Finding]:
    """One error per code: the first place in words, the others, if any, counted and under ``more``."""
    counts: Counter[str] = Counter()
    found: dict[str, list[dict[str, Any]]] = {}
    for code, place in faults:
        counts[code] += 1
        if counts[code] <= MAX_NAMED:
            found.setdefault(code, []).append({key: clip(value) for key, value in place.items()})
    findings = []
    for code, (first, *others) in found.items():
        message = f"{file}: {says[code].format(**first)}"
        where = {"file": file, **first}
        if others:
            message += f", and {counts[code] - 1:,} more like it"
            where |= {"more": others, "count": counts[code]}
        findings.append(Finding(code, "error", message, where))
    return findings


def _entry_faults(ranges: Sequence[Range]) -> Iterator[Fault]:
    for entry in ranges:
        stored = entry.end - entry.start
        where: dict[str, Any] = {"tensor": entry.name, "dtype": entry.dtype, "shape": list(entry.shape)}
        if entry.dtype not in BITS:
            yield "unknown_dtype", {"tensor": entry.name, "dtype": entry.dtype}
        elif (expected := tensor_bytes(entry.dtype, entry.shape)) is None and _is_fraction(entry):
            yield "sub_byte_misaligned", where
        elif expected != stored:
            yield "size_mismatch", where | {"expected_bytes": expected, "actual_bytes": stored}


def _is_fraction(entry: Range) -> bool:
    bits = BITS[entry.dtype]
    for length in entry.shape:
        bits = bits * length % 8
    return bits != 0


def _neighbour_faults(ordered: Sequence[Range]) -> Iterator[Fault]:
    """Holes, overlaps and aliases between ranges in the order of their offsets."""
    reached, owner = 0, None
    for entry in ordered:
        if entry.start > reached:
            yield "hole_in_data", {"range": [reached, entry.start], "bytes": entry.start - reached}
        elif entry.start < reached and owner is not None:
            names = [owner.name, entry.name]
            if (entry.start, entry.end) == (owner.start, owner.end):
                yield "aliased_ranges", {"tensors": names, "range": [entry.start, entry.end]}
            else:
                shared = min(entry.end, reached) - entry.start
                yield "overlapping_ranges", {"tensors": names, "bytes": max(shared, 0)}
        if entry.end >= reached:
            reached, owner = entry.end, entry


_SAYS = {
    "unknown_dtype": "{tensor} has the dtype {dtype}, which the format does not know",
    "sub_byte_misaligned": "{tensor} ({dtype} {shape}) does not end on a whole byte",
    "size_mismatch": "{tensor} ({dtype} {shape}) takes {expected_bytes} bytes, its range has {actual_bytes}",
    "hole_in_data": "no tensor owns the bytes {range}",
    "aliased_ranges": "{tensors[0]} and {tensors[1]} claim the same bytes {range}",
    "overlapping_ranges": "{tensors[0]} and {tensors[1]} share {bytes} bytes",
}


def _truncated(ranges: Sequence[Range], end: int, *, file: str, data_bytes: int) -> Finding:
    first = min((entry for entry in ranges if entry.end > data_bytes), key=lambda entry: entry.start)
    return Finding(
        "truncated_payload",
        "error",
        f"{file} is cut: its header promises {end:,} bytes of data, {data_bytes:,} are there "
        f"({end - data_bytes:,} missing); the first incomplete tensor is {clip(first.name)}",
        {
            "file": file,
            "expected_payload_bytes": end,
            "actual_payload_bytes": data_bytes,
            "missing_bytes": end - data_bytes,
            "first_incomplete_tensor": clip(first.name),
        },
    )


def _trailing(end: int, *, file: str, data_bytes: int) -> Finding:
    return Finding(
        "trailing_bytes",
        "error",
        f"{file} has {data_bytes - end:,} bytes after its last tensor, which the format forbids",
        {
            "file": file,
            "expected_payload_bytes": end,
            "actual_payload_bytes": data_bytes,
            "trailing_bytes": data_bytes - end,
        },
    )
