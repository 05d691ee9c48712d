"""A safetensors header to tensor columns: the format's own checks, in bulk, then in detail where one fails.

A file is eight bytes of length (little-endian), a JSON header of that length, and the data. Rules and
limits: safetensors 0.8.0, ``safetensors/src/tensor.rs`` (``read_metadata``, ``Metadata::validate``) and the
"Format" section of its README.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from operator import itemgetter, sub
from typing import Any

from ropewalk.errors import CheckpointError
from ropewalk.findings import Finding
from ropewalk.inspector.readers.dtypes import tensor_bytes
from ropewalk.inspector.readers.jsonfile import parse_object, repeated_keys
from ropewalk.inspector.readers.lfs import refuse_lfs_pointer
from ropewalk.inspector.tensors import Columns, Shape
from ropewalk.inspector.wording import MAX_NAMED, clip
from ropewalk.limits import MAX_HEADER_BYTES

LENGTH_BYTES = 8
HUB_HEADER_BYTES = 25_000_000  # huggingface_hub 2.4.0, constants.SAFETENSORS_MAX_HEADER_LENGTH
SNIFF_BYTES = 1024  # enough for a whole Git LFS pointer
_INT64_MAX = 2**63 - 1
_UNSIZED = 2**64  # larger than any file, so that it never passes for a size
_FIELDS = itemgetter("dtype", "shape", "data_offsets")
_OTHER_FORMATS = (
    (b"GGUF", "a GGUF file"),
    (b"PK\x03\x04", "a zip archive (PyTorch's pickle format)"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\x89HDF\r\n", "an HDF5 file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"<!DOCTYPE", "a web page"),
    (b"<html", "a web page"),
)


@dataclass(frozen=True, slots=True)
class Header:
    """A header as read: its tensors and what is wrong with them."""

    columns: Columns
    findings: tuple[Finding, ...]


def header_length(start: bytes, *, file: str, file_bytes: int) -> int:
    """The length of the JSON header, from the first bytes of the file (``SNIFF_BYTES`` or all there are).

    Raises :class:`CheckpointError`: ``lfs_pointer``, ``not_safetensors``, ``header_too_large``,
    ``header_length_exceeds_file``.
    """
    _refuse_other_formats(start, file=file, file_bytes=file_bytes)
    declared = int.from_bytes(start[:LENGTH_BYTES], "little")
    available = file_bytes - LENGTH_BYTES
    if declared > MAX_HEADER_BYTES:
        raise CheckpointError(
            f"the header of {file} has {declared:,} bytes by its length field; safetensors reads at most "
            f"{MAX_HEADER_BYTES:,} (huggingface_hub {HUB_HEADER_BYTES:,})",
            code="header_too_large",
            where={
                "file": file,
                "header_bytes": declared,
                "limits": {"safetensors": MAX_HEADER_BYTES, "huggingface_hub": HUB_HEADER_BYTES},
            },
        )
    if declared > available:
        raise CheckpointError(
            f"the header of {file} should take {declared:,} bytes, but only {available:,} follow: "
            "the file is cut or corrupt",
            code="header_length_exceeds_file",
            where={"file": file, "declared": declared, "available": available},
        )
    return declared


def _refuse_other_formats(start: bytes, *, file: str, file_bytes: int) -> None:
    refuse_lfs_pointer(start, file=file, file_bytes=file_bytes)
    found = next((name for magic, name in _OTHER_FORMATS if start.startswith(magic)), None)
    if found is None and file_bytes < LENGTH_BYTES:
        found = "empty" if file_bytes == 0 else f"{file_bytes} bytes long, shorter than the length field"
    if found is not None:
        raise CheckpointError(
            f"{file} is no safetensors file: it is {found}",
            code="not_safetensors",
            where={"file": file, "found": found, "bytes": file_bytes},
        )


class HeaderReader:
    """Reads headers one after another; equal shapes of different files become one object."""

    def __init__(self) -> None:
        self._kinds = _Kinds()

    def read(self, raw: bytes, *, file: str, data_bytes: int) -> Header:
        """Validate one header against ``data_bytes``, the bytes that follow it in the file.

        Raises :class:`CheckpointError` ``header_not_json`` or ``header_malformed`` where the tensors cannot
        be listed. What can be listed but contradicts itself is a finding of severity error.
        """
        entries = parse_object(
            raw, file=file, code="header_not_json", what=f"the header of {file}", strict=True
        )
        metadata = entries.pop("__metadata__", None)
        columns, ends = self._columns(entries, file=file)
        findings = _size_findings(len(raw), file=file) + _metadata_findings(metadata, file=file)
        if raw.count(b":") != _count_keys(entries, metadata):
            findings += _duplicate_findings(raw, file=file)
        if not _is_exact(columns, ends, data_bytes):
            if not all(map(_is_sound, entries.values())):
                raise _malformed(entries, file=file)
            from ropewalk.inspector.readers.layout import layout_findings

            findings += layout_findings(columns, ends, file=file, data_bytes=data_bytes)
            columns = replace(columns, nbytes=list(map(sub, ends, columns.offsets)))
        return Header(columns, tuple(findings))

    def _columns(self, entries: dict[str, Any], *, file: str) -> tuple[Columns, Sequence[int]]:
        """The columns, with the bytes that shape and dtype call for, and the ends of the ranges."""
        if not entries:
            return Columns((), (), (), (), ()), ()
        try:
            rows = entries.values()
            dtypes = [row["dtype"] for row in rows]
            shapes = [row["shape"] for row in rows]
            starts, ends = zip(*[row["data_offsets"] for row in rows], strict=True)
            kinds = list(map(self._kinds.__getitem__, zip(dtypes, map(tuple, shapes), strict=True)))
            numbers = chain(starts, ends, chain.from_iterable(shapes))
            sound = set(map(type, shapes)) == {list} and set(map(type, numbers)) == {int}
        except (KeyError, TypeError, ValueError):
            sound = False
        if not sound:
            raise _malformed(entries, file=file)
        shared_dtypes, shared_shapes, nbytes = zip(*kinds, strict=True)
        return Columns(list(entries), shared_dtypes, shared_shapes, nbytes, starts), ends


class _Kinds(dict[tuple[str, Shape], tuple[str, Shape, int]]):
    """(dtype, shape) -> the same as shared objects, with the bytes; ``_UNSIZED`` if none can be said."""

    def __missing__(self, key: tuple[str, Shape]) -> tuple[str, Shape, int]:
        dtype, shape = key
        if type(dtype) is not str or any(type(length) is not int or length < 0 for length in shape):
            raise TypeError("no dtype and shape")
        nbytes = tensor_bytes(dtype, shape)
        kind = self[key] = (sys.intern(dtype), shape, _UNSIZED if nbytes is None else nbytes)
        return kind


def _is_exact(columns: Columns, ends: Sequence[int], data_bytes: int) -> bool:
    """Whether the ranges, laid end to end, are what the shapes call for and fill the data section."""
    starts, nbytes = columns.offsets, columns.nbytes
    reached = (0, *accumulate(nbytes))
    if reached[:-1] != starts:  # not in the order of the data, which the format does not ask for
        starts, ends, nbytes = zip(*sorted(zip(starts, ends, nbytes, strict=True)), strict=True)
        reached = (0, *accumulate(nbytes))
    return reached[:-1] == starts and reached[1:] == ends and reached[-1] == data_bytes


def _malformed(entries: dict[str, Any], *, file: str) -> CheckpointError:
    """Names the first entry that is not ``{"dtype": str, "shape": [int], "data_offsets": [int, int]}``."""
    name, entry = next(((name, entry) for name, entry in entries.items() if not _is_sound(entry)), ("", None))
    return CheckpointError(
        f"{file}: the header entry of {clip(name)!r} is not a dtype, a shape and two data_offsets",
        code="header_malformed",
        where={"file": file, "tensor": clip(name), "entry": repr(clip(entry))[:200]},
    )


def _is_sound(entry: Any) -> bool:
    try:
        dtype, shape, (start, end) = _FIELDS(entry)
        return (
            isinstance(dtype, str)
            and isinstance(shape, list)
            and all(type(number) is int and number >= 0 for number in (*shape, start, end))
            and start <= end <= _INT64_MAX
        )
    except (KeyError, TypeError, ValueError):
        return False


def _count_keys(entries: dict[str, dict[str, Any]], metadata: Any) -> int:
    """The keys of a decoded header. Its text has as many colons, unless a key came twice or a string holds
    a colon."""
    extra = 1 + len(metadata) if isinstance(metadata, dict) else metadata is not None
    return extra + len(entries) + sum(map(len, entries.values()))


def _duplicate_findings(raw: bytes, *, file: str) -> list[Finding]:
    """Names given twice, which a dict has lost."""
    twice = repeated_keys(raw)
    if not twice:
        return []
    name, values = twice[0]
    shapes = [clip(value.get("shape")) if isinstance(value, dict) else None for value in values[:MAX_NAMED]]
    return [
        Finding(
            "duplicate_tensor_name",
            "error",
            f"{file}: the header names {clip(name)!r} {len(values)} times, with the shapes {shapes}; readers "
            "keep one of them without a word",
            {
                "file": file,
                "name": clip(name),
                "shapes": shapes,
                "names": [clip(key) for key, _ in twice[:MAX_NAMED]],
            },
        )
    ]


def _metadata_findings(metadata: Any, *, file: str) -> list[Finding]:
    if metadata is None:
        return []
    if not isinstance(metadata, dict):
        wrong = {"": type(metadata).__name__}
    else:
        wrong = {key: type(value).__name__ for key, value in metadata.items() if not isinstance(value, str)}
    if not wrong:
        return []
    key, kind = next((clip(key), kind) for key, kind in wrong.items())
    return [
        Finding(
            "metadata_not_string",
            "error",
            f"{file}: __metadata__{'.' + key if key else ''} is a JSON {kind}, only strings are allowed",
            {"file": file, "field": f"__metadata__.{key}", "type": kind, "count": len(wrong)},
        )
    ]


def _size_findings(header_bytes: int, *, file: str) -> list[Finding]:
    if header_bytes <= HUB_HEADER_BYTES:
        return []
    return [
        Finding(
            "header_too_large",
            "warning",
            f"the header of {file} has {header_bytes:,} bytes: safetensors reads up to {MAX_HEADER_BYTES:,}, "
            f"huggingface_hub refuses more than {HUB_HEADER_BYTES:,}",
            {
                "file": file,
                "header_bytes": header_bytes,
                "limits": {"safetensors": MAX_HEADER_BYTES, "huggingface_hub": HUB_HEADER_BYTES},
            },
        )
    ]
