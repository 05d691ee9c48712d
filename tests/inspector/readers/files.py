"""Checkpoint files made by code: exact headers, and data that is a hole of the right length."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from ropewalk.inspector.readers.dtypes import BITS
from ropewalk.inspector.readers.ggml_types import GGML_TYPES

TensorSpec = tuple[str, str, Sequence[int]]
"""Name, dtype, shape (row-major)."""


def entry(dtype: str, shape: Sequence[int], start: int, end: int) -> dict[str, Any]:
    """One header entry."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


def header_of(tensors: Iterable[TensorSpec], metadata: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A header as save_file writes it: one tensor after the other."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    at = 0
    for name, dtype, shape in tensors:
        end = at + prod(shape) * BITS[dtype] // 8
        header[name] = entry(dtype, shape, at, end)
        at = end
    return header


def safetensors_bytes(header: Mapping[str, Any] | bytes, payload: int | None = None) -> bytes:
    """A whole file. ``payload`` is the length of the data; None for what the header calls for."""
    raw = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    if payload is None:
        assert not isinstance(header, bytes)
        payload = max(
            (item["data_offsets"][1] for name, item in header.items() if name[:2] != "__"), default=0
        )
    return struct.pack("<Q", len(raw)) + raw + bytes(payload)


def write_tensors(path: Path, tensors: Iterable[TensorSpec]) -> Path:
    """A sound safetensors file."""
    path.write_bytes(safetensors_bytes(header_of(tensors)))
    return path


def write_json(path: Path, value: Any) -> Path:
    """A JSON file."""
    path.write_text(json.dumps(value))
    return path


def write_sharded(folder: Path, shards: Mapping[str, Sequence[TensorSpec]], **changes: str) -> Path:
    """Shards with their index; ``changes`` redirects tensors in the index to other files."""
    weight_map = {name: file for file, tensors in shards.items() for name, _, _ in tensors} | changes
    total = 0
    for file, tensors in shards.items():
        write_tensors(folder / file, tensors)
        total += sum(prod(shape) * BITS[dtype] // 8 for _, dtype, shape in tensors)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    write_json(folder / "model.safetensors.index.json", index)
    return folder


_GGUF_TYPES = {
    "uint8": (0, "B"), "int8": (1, "b"), "uint16": (2, "H"), "int16": (3, "h"), "uint32": (4, "I"),
    "int32": (5, "i"), "float32": (6, "f"), "bool": (7, "?"), "uint64": (10, "Q"), "int64": (11, "q"),
    "float64": (12, "d"),
}  # fmt: skip
_TYPE_NUMBERS = {kind.name: number for number, kind in GGML_TYPES.items()}


@dataclass
class GgufWriter:
    """A GGUF file; ``order`` is ``<`` or ``>``. Offsets and sizes are those of llama.cpp unless overruled."""

    version: int = 3
    order: str = "<"
    alignment: int = 32
    num_tensors: int | None = None
    num_keys: int | None = None
    keys: list[bytes] = field(default_factory=list)
    infos: list[bytes] = field(default_factory=list)
    data_bytes: int = 0

    def pack(self, layout: str, *values: Any) -> bytes:
        return struct.pack(self.order + layout, *values)

    def text(self, value: str | bytes) -> bytes:
        raw = value.encode() if isinstance(value, str) else value
        return self.pack("Q", len(raw)) + raw

    def key(self, name: str | bytes, kind: str, value: Any) -> GgufWriter:
        """A string (``kind`` "string") or a number."""
        number, body = (8, self.text(value)) if kind == "string" else (_GGUF_TYPES[kind][0], b"")
        if kind != "string":
            body = self.pack(_GGUF_TYPES[kind][1], value)
        self.keys.append(self.text(name) + self.pack("I", number) + body)
        return self

    def array(self, name: str, kind: str, values: Sequence[Any], *, count: int | None = None) -> GgufWriter:
        """An array; ``count`` overrules its stated length."""
        if kind == "string":
            number, body = 8, b"".join(map(self.text, values))
        else:
            number, letter = _GGUF_TYPES[kind]
            body = self.pack(f"{len(values)}{letter}", *values)
        stated = len(values) if count is None else count
        self.keys.append(self.text(name) + self.pack("IIQ", 9, number, stated) + body)
        return self

    def tensor(
        self, name: str | bytes, dtype: str | int, shape: Sequence[int], *, offset: int | None = None
    ) -> GgufWriter:
        """A tensor by its row-major shape; placed behind the one before."""
        number = dtype if isinstance(dtype, int) else _TYPE_NUMBERS[dtype]
        at = self.data_bytes if offset is None else offset
        dims = tuple(reversed(shape))
        self.infos.append(
            self.text(name) + self.pack("I", len(dims)) + self.pack(f"{len(dims)}QIQ", *dims, number, at)
        )
        kind = GGML_TYPES.get(number)
        nbytes = prod(shape) // kind.block_len * kind.block_bytes if kind else 0
        self.data_bytes = -(-(at + nbytes) // self.alignment) * self.alignment
        return self

    def header(self) -> bytes:
        """Everything up to the data, padded."""
        num_tensors = len(self.infos) if self.num_tensors is None else self.num_tensors
        num_keys = len(self.keys) if self.num_keys is None else self.num_keys
        start = b"GGUF" + self.pack("IQQ", self.version, num_tensors, num_keys)
        raw = start + b"".join(self.keys) + b"".join(self.infos)
        return raw + bytes(-len(raw) % self.alignment)

    def bytes(self) -> bytes:
        """The whole file, its data zeros."""
        return self.header() + bytes(self.data_bytes)

    def write(self, path: Path) -> Path:
        """The whole file, its data a hole."""
        header = self.header()
        with path.open("wb") as stream:
            stream.write(header)
            stream.truncate(len(header) + self.data_bytes)
        return path
