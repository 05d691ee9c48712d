"""GGUF files: keys, tensors, byte orders, split sets; what llama.cpp refuses is an error here."""

from __future__ import annotations

import ctypes
import struct
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.inspector.readers.files import GgufWriter

from ropewalk.errors import CheckpointError
from ropewalk.findings import Finding
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.readers.cursor import WINDOW_BYTES
from ropewalk.inspector.readers.ggml_types import GGML_TYPES
from ropewalk.inspector.readers.ggufset import scalar_place
from ropewalk.inspector.records import SkippedArray


def only(path: Path) -> Finding:
    (finding,) = open_checkpoint(path).findings
    return finding


def refused(path: Path, code: str) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    assert caught.value.code == code
    assert caught.value.where["file"] == path.name
    return caught.value


def test_smollm2(smollm2: Path) -> None:
    """Figures: the file as llama.cpp b11434 prints it on loading."""
    checkpoint = open_checkpoint(smollm2)
    assert checkpoint.findings == ()
    assert (checkpoint.format, checkpoint.path) == ("gguf", smollm2)
    assert [file.bytes for file in checkpoint.files] == [98_362_432]
    assert len(checkpoint.tensors) == 272
    assert checkpoint.tensors.total_bytes == 96_576_768
    assert sum(tensor.elements for tensor in checkpoint.tensors) == 134_515_008
    assert checkpoint.gguf["llama.context_length"] == 8192
    assert checkpoint.gguf["llama.rope.freq_base"] == 100_000.0
    assert checkpoint.gguf["tokenizer.ggml.tokens"] == SkippedArray("string", 49_152)
    assert checkpoint.gguf["tokenizer.ggml.token_type"] == SkippedArray("int32", 49_152)
    assert checkpoint.tensors.shape("token_embd.weight") == (49_152, 576)
    assert checkpoint.tensors.shape("blk.0.attn_k.weight") == (192, 576)


def test_arrays_that_are_asked_for(smollm2: Path) -> None:
    kept = ("tokenizer.ggml.tokens", "tokenizer.ggml.token_type")
    keys = open_checkpoint(smollm2, keep_arrays=kept).gguf
    assert keys["tokenizer.ggml.tokens"][:2] == ["<|endoftext|>", "<|im_start|>"]
    assert [len(keys[name]) for name in kept] == [49_152, 49_152]
    assert keys["tokenizer.ggml.merges"] == SkippedArray("string", 48_900)


def ggml() -> ctypes.CDLL:
    """llama.cpp's own library, as in the wheel of the embedded engine."""
    spec = find_spec("xllamacpp")
    if spec is None or spec.origin is None:
        pytest.skip("the embedded engine is not installed")
    (path,) = Path(spec.origin).parent.glob("*.so")
    library = ctypes.CDLL(str(path))
    library.ggml_type_name.restype = ctypes.c_char_p
    library.ggml_blck_size.restype = ctypes.c_int64
    library.ggml_type_size.restype = ctypes.c_size_t
    return library


def test_types_are_those_of_llama_cpp() -> None:
    library = ggml()
    for number in range(max(GGML_TYPES) + 1):
        kind = GGML_TYPES.get(number)
        theirs = (library.ggml_blck_size(number), library.ggml_type_size(number))
        assert theirs == ((kind.block_len, kind.block_bytes) if kind else (0, 0)), number
        if kind:
            assert library.ggml_type_name(number).decode().upper() == kind.name.upper()


@pytest.mark.parametrize("kind", GGML_TYPES.values(), ids=lambda kind: kind.name)
def test_bytes_of_every_type(kind: Any, tmp_path: Path) -> None:
    path = GgufWriter().tensor("w", kind.name, (3, 2 * kind.block_len)).write(tmp_path / "m.gguf")
    checkpoint = open_checkpoint(path)
    assert checkpoint.findings == ()
    assert (checkpoint.tensors.dtypes, list(checkpoint.tensors.nbytes)) == (
        [kind.name],
        [6 * kind.block_bytes],
    )


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("order", ["<", ">"])
def test_versions_and_byte_orders(version: int, order: str, tmp_path: Path) -> None:
    writer = GgufWriter(version=version, order=order).key("general.architecture", "string", "llama")
    writer.key("llama.context_length", "uint32", 131_072).array("x.list", "int32", [3, -1])
    path = writer.tensor("a", "F16", (5, 7)).tensor("b", "F32", (3,)).write(tmp_path / "m.gguf")
    checkpoint = open_checkpoint(path)
    assert [finding.code for finding in checkpoint.findings] == ["big_endian"] * (order == ">")
    assert checkpoint.gguf == {
        "general.architecture": "llama",
        "llama.context_length": 131_072,
        "x.list": [3, -1],
    }
    assert [(t.name, t.shape, t.nbytes, t.offset) for t in checkpoint.tensors] == [
        ("a", (5, 7), 70, 0),
        ("b", (3,), 12, 96),
    ]


@pytest.mark.parametrize(("version", "order"), [(1, "<"), (1, ">"), (0, "<"), (4, "<"), (0x03010000, "<")])
def test_other_versions(version: int, order: str, tmp_path: Path) -> None:
    path = GgufWriter(version=version, order=order).write(tmp_path / "m.gguf")
    assert refused(path, "gguf_version").where["supported"] == [2, 3]


VALUES = {
    "uint8": 255, "int8": -128, "uint16": 65_535, "int16": -32_768, "uint32": 2**32 - 1, "int32": -(2**31),
    "float32": 0.5, "bool": True, "uint64": 2**64 - 1, "int64": -(2**63), "float64": 0.1,
}  # fmt: skip


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("kind", "value"), VALUES.items())
def test_numbers_and_where_they_lie(kind: str, value: Any, order: str, tmp_path: Path) -> None:
    writer = GgufWriter(order=order).key("before", "string", "x" * 13).key("n", kind, value)
    path = writer.array("many", kind, [value] * 3).write(tmp_path / "m.gguf")
    assert open_checkpoint(path).gguf == {"before": "x" * 13, "n": value, "many": [value] * 3}
    place = scalar_place(path, "n")
    assert place.type == kind
    assert struct.unpack_from(place.layout, path.read_bytes(), place.offset) == (value,)
    for other in ("before", "many", "absent"):
        with pytest.raises(CheckpointError) as caught:
            scalar_place(path, other)
        assert caught.value.code == "gguf_key_missing"


def test_arrays(tmp_path: Path) -> None:
    writer = GgufWriter().array("heads", "uint32", range(4096)).array("scores", "float32", [0.0] * 4097)
    writer.array("tags", "string", ["a", "b"]).array("none", "bool", [])
    keys = open_checkpoint(writer.write(tmp_path / "m.gguf")).gguf
    assert keys["heads"] == list(range(4096))
    assert keys["scores"] == SkippedArray("float32", 4097)
    assert keys["tags"] == SkippedArray("string", 2)
    assert keys["none"] == []


@pytest.mark.parametrize("extra", range(-9, 10))
def test_strings_at_the_edge_of_a_window(extra: int, tmp_path: Path) -> None:
    """The header is read in windows; a length field may lie across two."""
    tokens = [
        "x" * (WINDOW_BYTES // 2 + extra),
        "y" * (WINDOW_BYTES // 2 - 90),
        "z" * 7,
        "é" * 3 * WINDOW_BYTES,
    ]
    writer = GgufWriter().array("t", "string", tokens).key("after", "uint8", 7)
    path = writer.tensor("w", "F32", (1,)).write(tmp_path / "m.gguf")
    assert open_checkpoint(path).gguf == {"t": SkippedArray("string", 4), "after": 7}
    assert open_checkpoint(path, keep_arrays=["t"]).gguf["t"] == tokens


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    writer = GgufWriter().key("general.name", "string", b"caf\xe9")
    assert open_checkpoint(writer.write(tmp_path / "m.gguf")).gguf == {"general.name": "caf\ufffd"}
    refused(GgufWriter().key("", "uint8", 1).write(tmp_path / "m.gguf"), "gguf_malformed")
    refused(GgufWriter().key(b"\xff", "uint8", 1).write(tmp_path / "m.gguf"), "gguf_malformed")
    refused(GgufWriter().tensor(b"\xff", "F32", (1,)).write(tmp_path / "m.gguf"), "gguf_malformed")


def test_shapes_are_turned(tmp_path: Path) -> None:
    path = GgufWriter().tensor("w", "F32", (2, 3, 4, 5)).tensor("s", "F32", ()).write(tmp_path / "m.gguf")
    assert open_checkpoint(path).tensors.shapes == [(2, 3, 4, 5), ()]


@pytest.mark.parametrize(("alignment", "second"), [(1, 12), (8, 16), (64, 64), (4096, 4096)])
def test_alignment(alignment: int, second: int, tmp_path: Path) -> None:
    writer = GgufWriter(alignment=alignment).key("general.alignment", "uint32", alignment)
    path = writer.tensor("a", "F32", (3,)).tensor("b", "F32", (1,)).write(tmp_path / "m.gguf")
    checkpoint = open_checkpoint(path)
    assert checkpoint.findings == ()
    assert list(checkpoint.tensors.offsets) == [0, second]


@pytest.mark.parametrize(
    ("kind", "value"),
    [("uint32", 0), ("uint32", 48), ("float32", 32.0), ("string", "32"), ("bool", True), ("uint64", 32)],
)
def test_an_alignment_that_is_none(kind: str, value: Any, tmp_path: Path) -> None:
    path = GgufWriter().key("general.alignment", kind, value).write(tmp_path / "m.gguf")
    assert "general.alignment" in refused(path, "gguf_malformed").message


def test_data_that_is_cut(tmp_path: Path) -> None:
    path = GgufWriter().tensor("a", "F32", (8,)).tensor("b", "F32", (8,)).write(tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes()[:-1])
    finding = only(path)
    assert (finding.code, finding.severity) == ("truncated_payload", "error")
    assert finding.where["first_incomplete_tensor"] == "b"
    assert (finding.where["expected_payload_bytes"], finding.where["actual_payload_bytes"]) == (64, 63)
    assert open_checkpoint(path).tensors.names == ["a", "b"]


def test_the_padding_of_the_last_tensor_may_lack(tmp_path: Path) -> None:
    path = GgufWriter().tensor("a", "F32", (1,)).write(tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes()[:-28])
    assert open_checkpoint(path).findings == ()


@pytest.mark.parametrize(
    ("offset", "code"), [(64, "hole_in_data"), (0, "overlapping_ranges"), (33, "hole_in_data")]
)
def test_offsets_that_llama_cpp_refuses(offset: int, code: str, tmp_path: Path) -> None:
    writer = GgufWriter().tensor("a", "F32", (8,)).tensor("b", "F32", (8,), offset=offset)
    finding = only(writer.write(tmp_path / "m.gguf"))
    assert (finding.code, finding.where["tensor"]) == (code, "b")
    assert (finding.where["offset"], finding.where["expected_offset"]) == (offset, 32)


def test_rows_of_broken_blocks(tmp_path: Path) -> None:
    finding = only(GgufWriter().tensor("a", "Q4_K", (4, 255)).write(tmp_path / "m.gguf"))
    assert (finding.code, finding.where["shape"]) == ("size_mismatch", [4, 255])


def test_an_unknown_type_takes_what_is_left_to_the_next(tmp_path: Path) -> None:
    writer = GgufWriter().tensor("a", 137, (8, 8)).tensor("b", "F32", (8,), offset=96)
    checkpoint = open_checkpoint(writer.write(tmp_path / "m.gguf"))
    (finding,) = checkpoint.findings
    assert (finding.code, finding.where["dtype"]) == ("unknown_dtype", "type 137")
    assert list(checkpoint.tensors.nbytes) == [96, 32]


@pytest.mark.parametrize("number", [4, 5, 31, 32, 33, 36, 37, 38])
def test_types_that_llama_cpp_dropped(number: int, tmp_path: Path) -> None:
    assert only(GgufWriter().tensor("a", number, (32,)).write(tmp_path / "m.gguf")).code == "unknown_dtype"


def test_names_and_keys_given_twice(tmp_path: Path) -> None:
    writer = GgufWriter().key("k", "uint8", 1).key("k", "uint8", 2)
    path = writer.tensor("a", "F32", (8,)).tensor("a", "F32", (8,)).write(tmp_path / "m.gguf")
    checkpoint = open_checkpoint(path)
    assert [finding.code for finding in checkpoint.findings] == ["duplicate_key", "duplicate_tensor_name"]
    assert checkpoint.gguf == {"k": 1}


def test_names_longer_than_ggml_allows(tmp_path: Path) -> None:
    writer = GgufWriter().tensor("n" * 63, "F32", (8,)).tensor("n" * 64, "F32", (8,))
    finding = only(writer.write(tmp_path / "m.gguf"))
    assert (finding.code, finding.where["tensor"]) == ("tensor_name_too_long", "n" * 64)


def test_more_dimensions_than_ggml_has(tmp_path: Path) -> None:
    refused(GgufWriter().tensor("a", "F32", (1, 1, 1, 1, 1)).write(tmp_path / "m.gguf"), "gguf_malformed")


@pytest.mark.parametrize("shape", [(2**32, 2**32), (2**63, 1), (0, 2**63), (2**60,)])
def test_shapes_beyond_any_file(shape: tuple[int, ...], tmp_path: Path) -> None:
    writer = GgufWriter().tensor("a", "F32", shape)
    writer.data_bytes = 0
    refused(writer.write(tmp_path / "m.gguf"), "gguf_malformed")


def test_counts_beyond_the_file(tmp_path: Path) -> None:
    for writer in (GgufWriter(num_tensors=2**40), GgufWriter(num_keys=2**63)):
        refused(writer.write(tmp_path / "m.gguf"), "gguf_malformed")
    for writer in (GgufWriter(num_tensors=1000), GgufWriter(num_keys=1000)):
        error = refused(writer.write(tmp_path / "m.gguf"), "header_length_exceeds_file")
        assert error.where["declared"] > error.where["available"]


@pytest.mark.parametrize(("kind", "count"), [("uint8", 2**62), ("float64", 2**61), ("int32", 10_000)])
def test_arrays_beyond_the_file(kind: str, count: int, tmp_path: Path) -> None:
    path = GgufWriter().array("k", kind, [1], count=count).write(tmp_path / "m.gguf")
    refused(path, "header_length_exceeds_file")


@pytest.mark.parametrize("keep", [(), ("k",)])
@pytest.mark.parametrize("count", [2, 1000, 2**24])
def test_string_arrays_beyond_the_file(count: int, keep: tuple[str, ...], tmp_path: Path) -> None:
    path = GgufWriter().array("k", "string", ["a"], count=count).write(tmp_path / "m.gguf")
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path, keep_arrays=keep)
    assert caught.value.code == "header_length_exceeds_file"


def test_more_strings_than_any_vocabulary(tmp_path: Path) -> None:
    path = GgufWriter().array("k", "string", [], count=2**24 + 1).write(tmp_path / "m.gguf")
    refused(path, "gguf_malformed")


def test_a_string_beyond_the_file(tmp_path: Path) -> None:
    writer = GgufWriter()
    for length, code in ((2**20, "header_length_exceeds_file"), (2**63, "gguf_malformed")):
        writer.keys = [writer.text("k") + writer.pack("IQ", 8, length)]
        refused(writer.write(tmp_path / "m.gguf"), code)


def test_value_types_that_are_none(tmp_path: Path) -> None:
    writer = GgufWriter()
    for body in (writer.pack("I", 13), writer.pack("IIQ", 9, 9, 1), writer.pack("IIQ", 9, 99, 1)):
        writer.keys = [writer.text("k") + body + bytes(64)]
        refused(writer.write(tmp_path / "m.gguf"), "gguf_malformed")


@pytest.mark.parametrize("raw", [b"", b"GG", b"GGML" + bytes(40), b"{}", b"PK\x03\x04" + bytes(40)])
def test_files_that_are_none(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(raw)
    refused(path, "not_gguf")


def test_the_magic_counts_not_the_name(tmp_path: Path) -> None:
    path = GgufWriter().key("general.architecture", "string", "llama").write(tmp_path / "blob")
    assert open_checkpoint(path).format == "gguf"


def test_every_cut_of_a_header_is_an_error_of_ours(tmp_path: Path) -> None:
    writer = GgufWriter().key("general.architecture", "string", "llama").array("t", "string", ["ab", "c"])
    writer.alignment = 1
    raw = writer.array("h", "uint32", [1, 2]).tensor("w", "F32", (2, 2)).header()
    path = tmp_path / "m.gguf"
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        refused(path, "not_gguf" if length < 4 else "header_length_exceeds_file")
    path.write_bytes(raw)
    assert only(path).code == "truncated_payload"


def split(folder: Path, keys: list[tuple[int, int]]) -> Path:
    for number, (no, count) in enumerate(keys, start=1):
        writer = GgufWriter().key("split.no", "uint16", no).key("split.count", "uint16", count)
        path = writer.tensor(f"t{number}", "F32", (8,)).write(folder / f"m-{number:05d}-of-00002.gguf")
    return path


@pytest.mark.parametrize(
    ("keys", "fields"),
    [
        ([(0, 2), (1, 2)], []),
        ([(1, 2), (0, 2)], ["split.no", "split.no"]),
        ([(0, 3), (1, 2)], ["split.count"]),
    ],
)
def test_parts_that_contradict_their_names(
    keys: list[tuple[int, int]], fields: list[str], tmp_path: Path
) -> None:
    findings = open_checkpoint(split(tmp_path, keys)).findings
    assert [(finding.code, finding.where["field"]) for finding in findings] == [
        ("split_mismatch", field) for field in fields
    ]


def test_a_part_under_the_name_of_a_whole(tmp_path: Path) -> None:
    path = split(tmp_path, [(0, 2), (1, 2)]).rename(tmp_path / "whole.gguf")
    assert only(path).where == {"file": "whole.gguf", "field": "split.count", "declared": 2, "found": 1}


@pytest.mark.parametrize("name", ["m-00003-of-00002.gguf", "m-00000-of-00000.gguf", "m-00000-of-00002.gguf"])
def test_numbers_that_are_no_part(name: str, tmp_path: Path) -> None:
    path = GgufWriter().key("general.architecture", "string", "llama").write(tmp_path / name)
    assert open_checkpoint(path).path == path


def test_an_unreadable_part_is_a_finding(tmp_path: Path) -> None:
    path = split(tmp_path, [(0, 2), (1, 2)])
    path.write_bytes(b"GGUF")
    finding = only(tmp_path / "m-00001-of-00002.gguf")
    assert (finding.code, finding.severity) == ("header_length_exceeds_file", "error")
    refused(path, "header_length_exceeds_file")


def test_a_tensor_in_two_parts(tmp_path: Path) -> None:
    path = split(tmp_path, [(0, 2), (1, 2)])
    writer = GgufWriter().key("split.no", "uint16", 1).key("split.count", "uint16", 2)
    writer.tensor("t1", "F32", (8,)).write(path)
    assert only(path).code == "duplicate_tensor_name"


def test_fewer_tensors_than_the_set_declares(tmp_path: Path) -> None:
    path = split(tmp_path, [(0, 2), (1, 2)])
    writer = GgufWriter().key("split.no", "uint16", 0).key("split.count", "uint16", 2)
    writer.key("split.tensors.count", "int32", 5).tensor("t1", "F32", (8,))
    writer.write(tmp_path / "m-00001-of-00002.gguf")
    assert only(path).where["field"] == "split.tensors.count"
