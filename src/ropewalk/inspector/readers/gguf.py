"""A GGUF file to its keys and tensor columns, by a forward walk over the header; data is never read.

Layout: docs/gguf.md of ggml-org/ggml (versions 2 and 3). What llama.cpp refuses (ggml/src/gguf.cpp, b11549)
is a finding of severity error where the tensors can still be listed, and raised where they cannot.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from struct import Struct, calcsize
from typing import Any

from ropewalk.errors import CheckpointError
from ropewalk.findings import Finding
from ropewalk.inspector.readers.cursor import Cursor
from ropewalk.inspector.readers.gguf_tensors import read_tensors
from ropewalk.inspector.readers.lfs import refuse_lfs_pointer
from ropewalk.inspector.readers.safetensors import SNIFF_BYTES
from ropewalk.inspector.readers.weights import GGUF_MAGIC
from ropewalk.inspector.records import SkippedArray
from ropewalk.inspector.tensors import Columns
from ropewalk.inspector.wording import clip
from ropewalk.limits import (
    MAX_GGUF_ARRAY_STRINGS,
    MAX_GGUF_KEPT_NUMBERS,
    MAX_GGUF_KEY_BYTES,
    MAX_GGUF_KEYS,
    MAX_GGUF_TENSORS,
    MAX_GGUF_TEXT_BYTES,
)

DEFAULT_ALIGNMENT = 32  # GGUF_DEFAULT_ALIGNMENT
KEPT_ARRAY_LEN = 4096  # numbers: head counts per layer, sliding patterns
_KEY_MIN_BYTES = 8 + 4 + 1
_TENSOR_MIN_BYTES = 8 + 4 + 4 + 8

_SCALARS = {
    0: ("uint8", "B"),
    1: ("int8", "b"),
    2: ("uint16", "H"),
    3: ("int16", "h"),
    4: ("uint32", "I"),
    5: ("int32", "i"),
    6: ("float32", "f"),
    7: ("bool", "?"),
    10: ("uint64", "Q"),
    11: ("int64", "q"),
    12: ("float64", "d"),
}
_STRING, _ARRAY = 8, 9
_HEAD_BYTES = 4096  # some 300 tokens of a vocabulary


@dataclass(frozen=True, slots=True)
class ScalarPlace:
    """Where a number lies in a file, for who patches a copy: ``layout`` is its format for ``struct``."""

    offset: int
    type: str
    layout: str


@dataclass(frozen=True, slots=True)
class HeaderLayout:
    """Where the parts of a header lie, for who writes another: ``keys`` has the bytes ``[start, end)`` of
    each key with its value, ``keys_end`` is where the tensors' descriptions begin, ``tensors_end`` where they
    end; the data begins at the next multiple of ``alignment``. ``order`` is the byte order for ``struct``."""

    keys: dict[str, tuple[int, int]]
    keys_end: int
    tensors_end: int
    alignment: int
    order: str


@dataclass(frozen=True, slots=True)
class GgufFile:
    """The header of one GGUF file: key-value section and tensor table."""

    file: str
    file_bytes: int
    version: int
    keys: dict[str, Any]
    places: dict[str, ScalarPlace]
    columns: Columns
    layout: HeaderLayout
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class KnownArray:
    """An array of strings as one file has it: how many, how it begins, and the bytes of all of it."""

    count: int
    head: bytes
    num_bytes: int


KnownArrays = dict[str, KnownArray]
"""By key: what the quantisations of one model have in common is most of their headers."""


def parse_gguf(
    cursor: Cursor, *, keep_arrays: Collection[str] = (), known: KnownArrays | None = None
) -> GgufFile:
    """Read one file from its start.

    ``keep_arrays`` names arrays to keep whole; numeric ones of up to ``KEPT_ARRAY_LEN`` elements are kept
    anyway. Arrays of strings that begin as ``known`` ones are taken to be as long, and others are added
    there: what is then not without fault has to be read again without. Raises :class:`CheckpointError`
    ``lfs_pointer``, ``not_gguf``, ``gguf_version``,
    ``gguf_malformed``, ``header_length_exceeds_file``.
    """
    version = _version(cursor)
    num_tensors = _count(cursor, "tensors", limit=MAX_GGUF_TENSORS, item_bytes=_TENSOR_MIN_BYTES)
    num_keys = _count(cursor, "keys", limit=MAX_GGUF_KEYS, item_bytes=_KEY_MIN_BYTES)
    section = _KeySection(cursor, keep_arrays, {} if known is None else known)
    section.read(num_keys)
    alignment, keys_end = _alignment(cursor, section), cursor.position
    columns, faults = read_tensors(cursor, num_tensors, alignment=alignment)
    return GgufFile(
        file=cursor.file,
        file_bytes=cursor.size,
        version=version,
        keys=section.keys,
        places=section.places,
        columns=columns,
        layout=HeaderLayout(section.spans, keys_end, cursor.position, alignment, cursor.order),
        findings=(*_order_findings(cursor), *section.findings, *faults),
    )


def _version(cursor: Cursor) -> int:
    """Check the magic and the version, and find the byte order by it: 3 is 3 in one order only."""
    start = cursor.peek(SNIFF_BYTES)
    refuse_lfs_pointer(start, file=cursor.file, file_bytes=cursor.size)
    if not start.startswith(GGUF_MAGIC):
        raise CheckpointError(
            f"{cursor.file} is no GGUF file: it starts with {start[:4]!r}, not {GGUF_MAGIC!r}",
            code="not_gguf",
            where={"file": cursor.file, "found": start[:4].hex(), "bytes": cursor.size},
        )
    cursor.skip(len(GGUF_MAGIC))
    raw = cursor.take(4)
    version = int.from_bytes(raw, "little")
    if version & 0xFFFF == 0:
        cursor.use_byte_order(">")
        version = int.from_bytes(raw, "big")
    if version not in (2, 3):
        raise CheckpointError(
            f"{cursor.file} is GGUF version {version}; llama.cpp and ropewalk read 2 and 3"
            + (" (version 1 is of 2023: convert the model again)" if version == 1 else ""),
            code="gguf_version",
            where={"file": cursor.file, "version": version, "supported": [2, 3]},
        )
    return version


def _count(cursor: Cursor, what: str, *, limit: int, item_bytes: int) -> int:
    """A count that the rest of the file can hold."""
    count = cursor.u64()
    if count > limit:
        raise cursor.malformed(f"{count:,} {what}; the limit is {limit:,}")
    cursor.check(count * item_bytes)
    return count


def _alignment(cursor: Cursor, section: _KeySection) -> int:
    """A power of two as a uint32, as llama.cpp wants it; without the key it is 32."""
    if "general.alignment" not in section.keys:
        return DEFAULT_ALIGNMENT
    alignment = section.keys["general.alignment"]
    place = section.places.get("general.alignment")
    if place is None or place.type != "uint32" or alignment == 0 or alignment & (alignment - 1):
        raise cursor.malformed(f"general.alignment is {clip(alignment)!r}, not a power of two as uint32")
    return int(alignment)


def _order_findings(cursor: Cursor) -> tuple[Finding, ...]:
    if cursor.order == "<":
        return ()
    return (
        Finding(
            "big_endian",
            "warning",
            f"{cursor.file} is big-endian: llama.cpp opens it on big-endian machines only",
            {"file": cursor.file},
        ),
    )


class _KeySection:
    """The key-value section: values, the places of numbers, and keys that came twice."""

    def __init__(self, cursor: Cursor, keep_arrays: Collection[str], known: KnownArrays) -> None:
        self.keys: dict[str, Any] = {}
        self.places: dict[str, ScalarPlace] = {}
        self.spans: dict[str, tuple[int, int]] = {}
        self.findings: list[Finding] = []
        self._cursor = cursor
        self._keep = keep_arrays
        self._known = known
        self._strings_left = MAX_GGUF_ARRAY_STRINGS
        self._text_left = MAX_GGUF_TEXT_BYTES
        self._numbers_left = MAX_GGUF_KEPT_NUMBERS

    def read(self, count: int) -> None:
        for _ in range(count):
            start = self._cursor.position
            key = self._cursor.text("key", limit=MAX_GGUF_KEY_BYTES)
            if not key:
                raise self._cursor.malformed("an empty key, which llama.cpp refuses")
            kind = self._cursor.u32()
            place = self._cursor.position
            value = self._value(key, kind)
            if key in self.keys:
                self._note_duplicate(key)
                continue
            self.keys[key] = value
            self.spans[key] = (start, self._cursor.position)
            if kind in _SCALARS:
                name, letter = _SCALARS[kind]
                self.places[key] = ScalarPlace(place, name, self._cursor.order + letter)

    def _value(self, key: str, kind: int) -> Any:
        if kind in _SCALARS:
            return self._numbers(kind, 1)[0]
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array(key)
        raise self._cursor.malformed(f"the key {clip(key)} has the unknown value type {kind}")

    def _array(self, key: str) -> Any:
        kind = self._cursor.u32()
        count = self._cursor.u64()
        if kind == _STRING:
            return self._strings(key, count)
        if kind not in _SCALARS:
            raise self._cursor.malformed(f"the array {clip(key)} has elements of the type {kind}")
        size = calcsize("<" + _SCALARS[kind][1])
        self._cursor.check(count * size)
        if count <= KEPT_ARRAY_LEN or (key in self._keep and count <= MAX_GGUF_ARRAY_STRINGS):
            self._numbers_left = self._spend(self._numbers_left, count, "numbers", key, MAX_GGUF_KEPT_NUMBERS)
            return self._numbers(kind, count)
        self._cursor.skip(count * size)
        return SkippedArray(_SCALARS[kind][0], count)

    def _numbers(self, kind: int, count: int) -> list[Any]:
        return list(self._cursor.unpack(Struct(f"{self._cursor.order}{count}{_SCALARS[kind][1]}")))

    def _strings(self, key: str, count: int) -> Any:
        self._strings_left = self._spend(self._strings_left, count, "strings", key, MAX_GGUF_ARRAY_STRINGS)
        self._cursor.check(count * 8)
        if key not in self._keep:
            self._skip(key, count)
            return SkippedArray("string", count)
        return [self._string() for _ in range(count)]

    def _string(self) -> str:
        raw = self._cursor.string()
        self._text_left -= len(raw)
        if self._text_left < 0:
            raise self._cursor.malformed(f"more than {MAX_GGUF_TEXT_BYTES:,} bytes of text in its keys")
        return raw.decode("utf-8", errors="replace")

    def _spend(self, left: int, count: int, what: str, key: str, most: int) -> int:
        """What is left of a limit of the whole file."""
        if count > left:
            raise self._cursor.malformed(f"more than {most:,} {what}, with the {count:,} of {clip(key)}")
        return left - count

    def _skip(self, key: str, count: int) -> None:
        """Walk over the strings, or pass them at once where another file had the same."""
        start, head = self._cursor.position, self._cursor.peek(_HEAD_BYTES)
        known = self._known.get(key)
        if known is not None and (known.count, known.head) == (count, head):
            self._cursor.skip(known.num_bytes)
            return
        self._cursor.skip_strings(count)
        self._known[key] = KnownArray(count, head, self._cursor.position - start)

    def _note_duplicate(self, key: str) -> None:
        self.findings.append(
            Finding(
                "duplicate_key",
                "error",
                f"{self._cursor.file} gives the key {clip(key)} twice, which llama.cpp refuses",
                {"file": self._cursor.file, "field": clip(key)},
            )
        )
