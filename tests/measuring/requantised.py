"""A GGUF file quantised anew by the engine's own code: ggml's functions inside the embedded engine.

The wheel has no ``llama-quantize``; what that program calls for each tensor (``to_float`` of the stored type,
``ggml_quantize_chunk``) is in its library.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from importlib.util import find_spec
from math import prod
from pathlib import Path

from ropewalk.inspector.readers.ggufset import read_gguf_file

TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8}


class _Traits(ctypes.Structure):
    """``ggml_type_traits`` as far as its conversion to floats (ggml/include/ggml.h, b11549)."""

    _fields_ = (
        ("type_name", ctypes.c_char_p),
        ("blck_size", ctypes.c_int64),
        ("blck_size_interleave", ctypes.c_int64),
        ("type_size", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)),
    )


@cache
def _ggml() -> ctypes.CDLL:
    spec = find_spec("xllamacpp")
    assert spec is not None
    assert spec.origin is not None
    (path,) = Path(spec.origin).parent.glob("xllamacpp*.so")
    library = ctypes.CDLL(str(path))
    library.ggml_get_type_traits.restype = ctypes.POINTER(_Traits)
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
        ctypes.c_void_p,
    ]  # fmt: skip
    return library


def requantise(source: Path, target: Path, dtype: str) -> Path:
    """A copy whose matrices are of another type; keys and vectors stay as they are."""
    header = read_gguf_file(source)
    raw = source.read_bytes()
    alignment = header.layout.alignment
    start = -(-header.layout.tensors_end // alignment) * alignment
    infos, data = bytearray(), bytearray()
    columns = header.columns
    for name, stored, shape, size, offset in zip(
        columns.names, columns.dtypes, columns.shapes, columns.nbytes, columns.offsets, strict=True
    ):
        at = start + offset
        content, kind = raw[at : at + size], stored
        if len(shape) == 2:
            content, kind = _converted(content, stored, dtype, prod(shape), shape[-1]), dtype
        dims = tuple(reversed(shape))
        infos += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(dims))
        infos += struct.pack(f"<{len(dims)}QIQ", *dims, TYPES[kind], len(data))
        data += content + bytes(-len(content) % alignment)
    head = raw[: header.layout.keys_end] + infos
    target.write_bytes(head + bytes(-len(head) % alignment) + data)
    return target


def _converted(content: bytes, stored: str, dtype: str, elements: int, row: int) -> bytes:
    ggml = _ggml()
    floats = (ctypes.c_float * elements)()
    ggml.ggml_get_type_traits(TYPES[stored]).contents.to_float(content, floats, elements)
    made = ctypes.create_string_buffer(elements * 4)
    size = ggml.ggml_quantize_chunk(TYPES[dtype], floats, made, 0, elements // row, row, None)
    return made.raw[:size]
