"""Files made to mislead or to exhaust a reader, each with the reason why it must be refused or told.

None of them is large: what is large about them is what they claim.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

from tests.inspector.readers.files import GgufWriter, entry, safetensors_bytes


@dataclass(frozen=True)
class Attack:
    """``files`` by name make a folder; the first is what is opened. ``code`` is what must be said of it."""

    name: str
    reason: str
    code: str
    files: dict[str, bytes]


def _safetensors(
    name: str, code: str, reason: str, header: dict[str, Any] | bytes, payload: int = 0
) -> Attack:
    return Attack(name, reason, code, {"model.safetensors": safetensors_bytes(header, payload)})


def _raw(name: str, code: str, reason: str, raw: bytes, file: str = "model.safetensors") -> Attack:
    return Attack(name, reason, code, {file: raw})


def _gguf(name: str, code: str, reason: str, writer: GgufWriter) -> Attack:
    return Attack(name, reason, code, {"model.gguf": writer.header() + bytes(64)})


def _index(name: str, code: str, reason: str, weight_map: Any) -> Attack:
    index = json.dumps({"weight_map": weight_map}).encode()
    return Attack(name, reason, code, {"model.safetensors.index.json": index})


def _body(*parts: bytes) -> GgufWriter:
    """A writer whose only key is given raw."""
    writer = GgufWriter()
    writer.keys = [b"".join(parts)]
    return writer


_W = GgufWriter()
_U8 = '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'

SAFETENSORS = [
    _raw("length_of_2_to_64", "header_too_large", "a reader that allocates it dies", b"\xff" * 8 + b"{}"),
    _raw("length_of_100_000_001", "header_too_large", "one above the limit", struct.pack("<Q", 100_000_001)),
    _raw(
        "length_beyond_the_file",
        "header_length_exceeds_file",
        "the read comes back short",
        struct.pack("<Q", 1000) + b"{}",
    ),
    _raw("no_length", "not_safetensors", "seven bytes hold no length", b"\0" * 7),
    _raw("length_zero", "header_not_json", "an empty header is no JSON", bytes(8)),
    _raw(
        "pickle_in_disguise",
        "not_safetensors",
        "whoever falls back to torch.load runs code",
        b"\x80\x04\x95" + b"cos\nsystem\n(S'true'\ntR." + bytes(40),
    ),
    _raw(
        "zip_in_disguise",
        "not_safetensors",
        "a PyTorch archive under another name",
        b"PK\x03\x04" + bytes(60),
    ),
    _safetensors(
        "nested_lists",
        "header_not_json",
        "a recursive parser runs out of stack",
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ),
    _safetensors(
        "nested_objects", "header_not_json", "the same by objects", b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    ),
    _safetensors(
        "number_of_5000_digits",
        "header_not_json",
        "quadratic time to convert",
        b'{"a":{"dtype":"U8","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,1]}}',
    ),
    _safetensors("second_document", "header_not_json", "two readers may see two headers", b"{}{}"),
    _safetensors(
        "nul_padding", "header_not_json", "only spaces may pad a header", f'{{"a":{_U8}}}\0'.encode(), 1
    ),
    _safetensors("utf16", "header_not_json", "json.loads would guess the encoding", "{}".encode("utf-16")),
    _safetensors(
        "half_a_character",
        "header_not_json",
        "a name that cannot be printed",
        f'{{"\\ud800":{_U8}}}'.encode(),
        1,
    ),
    _safetensors(
        "raw_surrogate",
        "header_not_json",
        "the same, not escaped",
        b'{"\xed\xa0\x80":' + _U8.encode() + b"}",
        1,
    ),
    _safetensors(
        "infinity",
        "header_not_json",
        "no JSON, but Python's json takes it",
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,Infinity]}}',
        1,
    ),
    _safetensors(
        "negative_start",
        "header_malformed",
        "an index from the end of a buffer",
        {"a": entry("U8", (2,), -1, 1)},
        1,
    ),
    _safetensors(
        "end_before_start", "header_malformed", "a negative size", {"a": entry("U8", (1,), 5, 4)}, 5
    ),
    _safetensors(
        "negative_dimensions",
        "header_malformed",
        "their product is positive",
        {"a": entry("U8", (-1, -1), 0, 1)},
        1,
    ),
    _safetensors(
        "true_as_a_dimension",
        "header_malformed",
        "Python takes True for 1",
        b'{"a":{"dtype":"U8","shape":[true],"data_offsets":[0,1]}}',
        1,
    ),
    _safetensors(
        "end_above_int64",
        "header_malformed",
        "beyond any file offset",
        {"a": entry("U8", (2**63,), 0, 2**63)},
    ),
    _safetensors(
        "huge_tensor",
        "truncated_payload",
        "2**62 bytes, of which none is there",
        {"a": entry("U8", (2**62,), 0, 2**62)},
    ),
    _safetensors(
        "product_wraps_to_zero",
        "size_mismatch",
        "2**32 * 2**32 is 0 in 64 bits",
        {"a": entry("U8", (2**32, 2**32), 0, 0)},
    ),
    _safetensors(
        "overflow_before_a_zero",
        "size_mismatch",
        "refused or not by the order of the product",
        {"a": entry("U8", (2**40, 2**40, 0), 0, 0)},
    ),
    _safetensors(
        "bits_overflow",
        "size_mismatch",
        "2**61 elements of 8 bits are 0 in 64 bits",
        {"a": entry("U8", (2**61,), 0, 0)},
    ),
    _safetensors(
        "polyglot",
        "trailing_bytes",
        "another file hidden behind the data",
        {"a": entry("U8", (1,), 0, 1)},
        500,
    ),
    _safetensors(
        "hidden_bytes",
        "hole_in_data",
        "another file hidden between the data",
        {"a": entry("U8", (1,), 0, 1), "b": entry("U8", (1,), 99, 100)},
        100,
    ),
    _safetensors(
        "one_range_many_names",
        "aliased_ranges",
        "a small file that unpacks to a large one",
        {f"t{number}": entry("U8", (64,), 0, 64) for number in range(500)},
        64,
    ),
    _safetensors(
        "two_meanings",
        "duplicate_tensor_name",
        "readers disagree on which one counts",
        f'{{"a":{_U8},"a":{_U8.replace("[1]", "[1,1]")}}}'.encode(),
        1,
    ),
    _safetensors(
        "escaped_twin",
        "duplicate_tensor_name",
        "the same name spelt in another way",
        f'{{"a":{_U8},"\\u0061":{_U8}}}'.encode(),
        1,
    ),
    _safetensors(
        "twin_inside_an_entry",
        "duplicate_tensor_name",
        "the first dtype is the wrong one",
        b'{"a":{"dtype":"F64","dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        1,
    ),
    _safetensors(
        "code_in_metadata",
        "metadata_not_string",
        "only text has a place there",
        {"__metadata__": {"a": {"__reduce__": "os.system"}}, "a": entry("U8", (1,), 0, 1)},
        1,
    ),
]

GGUF = [
    _gguf(
        "tensors_2_to_60",
        "gguf_malformed",
        "a table that is reserved before it is read",
        GgufWriter(num_tensors=2**60),
    ),
    _gguf(
        "keys_2_to_64",
        "gguf_malformed",
        "the count times the size wraps around",
        GgufWriter(num_keys=2**64 - 1),
    ),
    _gguf(
        "more_tensors_than_fit",
        "header_length_exceeds_file",
        "the file ends first",
        GgufWriter(num_tensors=9),
    ),
    _gguf(
        "string_of_2_to_64",
        "gguf_malformed",
        "length + 1 is 0",
        _body(_W.text("k"), _W.pack("IQ", 8, 2**64 - 1)),
    ),
    _gguf(
        "string_beyond_the_file",
        "header_length_exceeds_file",
        "a read past the end",
        _body(_W.text("k"), _W.pack("IQ", 8, 1_000_000)),
    ),
    _gguf(
        "key_of_a_gigabyte", "gguf_malformed", "keys have at most 65,535 bytes", _body(_W.pack("Q", 2**30))
    ),
    _gguf(
        "array_of_2_to_61_doubles",
        "header_length_exceeds_file",
        "its size wraps to 0",
        _body(_W.text("k"), _W.pack("IIQ", 9, 12, 2**61)),
    ),
    _gguf(
        "array_of_strings_beyond_the_file",
        "header_length_exceeds_file",
        "a walk past the end",
        _body(_W.text("k"), _W.pack("IIQ", 9, 8, 2**20), bytes(64)),
    ),
    _gguf(
        "strings_without_end",
        "gguf_malformed",
        "10**12 empty strings in a sparse file take days",
        _body(_W.text("k"), _W.pack("IIQ", 9, 8, 10**12), bytes(64)),
    ),
    _gguf(
        "string_that_skips_all",
        "header_length_exceeds_file",
        "the length leaps over the end",
        _body(_W.text("k"), _W.pack("IIQQ", 9, 8, 2, 2**63), bytes(64)),
    ),
    _gguf(
        "arrays_in_arrays",
        "gguf_malformed",
        "recursion without a limit",
        _body(_W.text("k"), _W.pack("IIQ", 9, 9, 1) * 50),
    ),
    _gguf(
        "unknown_value_type",
        "gguf_malformed",
        "no telling where the next key starts",
        _body(_W.text("k"), _W.pack("I", 77), bytes(64)),
    ),
    _gguf(
        "two_meanings",
        "duplicate_key",
        "readers disagree on which one counts",
        GgufWriter().key("a.context_length", "uint32", 1).key("a.context_length", "uint32", 2),
    ),
    _gguf(
        "alignment_zero",
        "gguf_malformed",
        "a division by zero",
        GgufWriter().key("general.alignment", "uint32", 0),
    ),
    _gguf(
        "five_dimensions",
        "gguf_malformed",
        "ggml's array has four",
        GgufWriter().tensor("a", "F32", (1,) * 5),
    ),
    _gguf(
        "shape_overflows",
        "gguf_malformed",
        "2**32 * 2**32 is 0 in 64 bits",
        GgufWriter().tensor("a", "F32", (2**32, 2**32)),
    ),
    _gguf(
        "offset_beyond_the_file",
        "gguf_malformed",
        "a pointer anywhere",
        GgufWriter().tensor("a", "F32", (0,), offset=2**63),
    ),
    _gguf(
        "two_tensors_one_place",
        "overlapping_ranges",
        "a small file that unpacks to a large one",
        GgufWriter().tensor("a", "F32", (8,)).tensor("b", "F32", (8,), offset=0),
    ),
    _gguf(
        "name_without_end",
        "tensor_name_too_long",
        "ggml copies names into 64 bytes",
        GgufWriter().tensor("n" * 5000, "F32", (8,)),
    ),
]

FOLDERS = [
    _index("parent_folder", "unsafe_path", "reads outside the folder", {"a": "../secret.safetensors"}),
    _index("absolute_path", "unsafe_path", "the same", {"a": "/etc/passwd.safetensors"}),
    _index("windows_path", "unsafe_path", "the same where \\ separates", {"a": "..\\secret.safetensors"}),
    _index("pickle_by_index", "pickle_only", "the index asks for a pickle", {"a": "pytorch_model.bin"}),
    _index("list_as_a_name", "index_malformed", "lists cannot be looked up", {"a": [["x.safetensors"]]}),
    _index("list_as_a_map", "index_malformed", "no names at all", [["a", "x.safetensors"]]),
    _raw(
        "config_nested",
        "config_not_json",
        "a recursive parser runs out of stack",
        b'{"a":' * 100_000,
        "config.json",
    ),
    _raw(
        "config_of_lists",
        "config_not_json",
        "nine megabytes that take half a gigabyte of memory",
        b'{"a":[' + b"[]," * 3_000_000 + b"[]]}",
        "config.json",
    ),
    _raw("config_surrogate", "config_not_json", "could not be printed", b'{"a":"\\udc00"}', "config.json"),
]

ATTACKS = [*SAFETENSORS, *GGUF, *FOLDERS]
