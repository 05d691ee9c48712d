"""One safetensors file: what is listed, what is a finding, what is refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from tests.inspector.readers.files import entry, header_of, safetensors_bytes, write_json, write_tensors

from ropewalk.errors import CheckpointError
from ropewalk.findings import Finding
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.readers.dtypes import BITS
from ropewalk.inspector.records import Checkpoint


def opened(folder: Path, header: dict[str, Any] | bytes, payload: int | None = None) -> Checkpoint:
    path = folder / "model.safetensors"
    path.write_bytes(safetensors_bytes(header, payload))
    return open_checkpoint(path)


def only(checkpoint: Checkpoint) -> Finding:
    (finding,) = checkpoint.findings
    return finding


def test_what_a_header_says(tmp_path: Path) -> None:
    header = header_of([("b", "BF16", (4, 3)), ("a", "F32", ())], metadata={"format": "pt"})
    checkpoint = opened(tmp_path, header)
    assert checkpoint.findings == ()
    assert checkpoint.format == "safetensors"
    assert checkpoint.path == tmp_path / "model.safetensors"
    assert [(t.name, t.dtype, t.shape, t.nbytes, t.offset) for t in checkpoint.tensors] == [
        ("b", "BF16", (4, 3), 24, 0),
        ("a", "F32", (), 4, 24),
    ]
    (file,) = checkpoint.files
    assert (file.name, file.bytes) == (
        "model.safetensors",
        8 + len(json.dumps(header, separators=(",", ":"))) + 28,
    )


# safetensors 0.8.0 names these in its error for an unknown one.
NAMES = [
    "BOOL", "F4", "F6_E2M3", "F6_E3M2", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ",
    "F8_E5M2FNUZ", "I16", "U16", "F16", "BF16", "I32", "U32", "F32", "C64", "F64", "I64", "U64",
]  # fmt: skip


def test_the_formats_own_list_of_dtypes() -> None:
    assert sorted(BITS) == sorted(NAMES)


@pytest.mark.parametrize("dtype", NAMES)
def test_every_dtype(dtype: str, tmp_path: Path) -> None:
    checkpoint = opened(tmp_path, {"w": entry(dtype, (2, 4), 0, BITS[dtype])})
    assert checkpoint.findings == ()
    assert checkpoint.tensors.nbytes[0] == BITS[dtype]


@pytest.mark.parametrize(("dtype", "shape"), [("F4", (3,)), ("F6_E2M3", (2,)), ("F6_E3M2", (5, 5))])
def test_a_fraction_of_a_byte(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    finding = only(opened(tmp_path, {"w": entry(dtype, shape, 0, 2)}, 2))
    assert (finding.code, finding.severity) == ("sub_byte_misaligned", "error")
    assert finding.where["tensor"] == "w"


def test_order_of_names_is_not_order_of_data(tmp_path: Path) -> None:
    header = {"b": entry("F32", (2,), 16, 24), "a": entry("F32", (2, 2), 0, 16)}
    checkpoint = opened(tmp_path, header)
    assert checkpoint.findings == ()
    assert checkpoint.tensors.names == ["b", "a"]
    assert list(checkpoint.tensors.offsets) == [16, 0]


def test_an_empty_tensor_inside_another_is_misplaced(tmp_path: Path) -> None:
    header = {"a": entry("F32", (2,), 0, 8), "b": entry("F32", (0,), 4, 4)}
    assert only(opened(tmp_path, header)).code == "overlapping_ranges"


@pytest.mark.parametrize("start", [0, 8])
def test_an_empty_tensor_at_an_edge_is_sound(start: int, tmp_path: Path) -> None:
    header = {"a": entry("F32", (2,), 0, 8), "b": entry("F32", (0,), start, start)}
    assert opened(tmp_path, header).findings == ()


def test_trailing_bytes(tmp_path: Path) -> None:
    finding = only(opened(tmp_path, {"a": entry("U8", (4,), 0, 4)}, 7))
    assert (finding.code, finding.severity) == ("trailing_bytes", "error")
    assert finding.where["trailing_bytes"] == 3


def test_an_unknown_dtype_keeps_its_range(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path, {"a": entry("F3", (7,), 0, 5), "b": entry("U8", (1,), 5, 6)})
    assert only(checkpoint).code == "unknown_dtype"
    assert only(checkpoint).where == {"file": "model.safetensors", "tensor": "a", "dtype": "F3"}
    assert list(checkpoint.tensors.nbytes) == [5, 1]


@pytest.mark.parametrize(
    ("shape", "end"),
    [
        ((2**40, 2**40), 16),  # more bytes than any file
        ((2**32, 2**32, 0), 0),  # the reference multiplies in order and overflows before it comes to the 0
        ((2**61,), 2**61 // 4),  # bits overflow, elements do not
    ],
)
def test_shapes_that_overflow(shape: tuple[int, ...], end: int, tmp_path: Path) -> None:
    findings = opened(tmp_path, {"a": entry("F32", shape, 0, end)}, 16).findings
    assert "size_mismatch" in [finding.code for finding in findings]


def test_a_shape_of_100_000_dimensions_is_refused_at_once(tmp_path: Path) -> None:
    finding = only(opened(tmp_path, {"a": entry("F4", [2**62] * 100_000, 0, 1)}, 1))
    assert finding.code == "size_mismatch"
    assert len(finding.message) < 1000


@pytest.mark.parametrize(
    ("metadata", "field"),
    [({"step": 3}, "__metadata__.step"), ([], "__metadata__."), ({"a": None}, "__metadata__.a")],
)
def test_metadata_that_is_not_text(metadata: Any, field: str, tmp_path: Path) -> None:
    finding = only(opened(tmp_path, {"__metadata__": metadata, "a": entry("U8", (1,), 0, 1)}, 1))
    assert (finding.code, finding.severity) == ("metadata_not_string", "error")
    assert finding.where["field"] == field


def test_null_metadata_is_none(tmp_path: Path) -> None:
    assert opened(tmp_path, {"__metadata__": None, "a": entry("U8", (1,), 0, 1)}, 1).findings == ()


def test_colons_in_names_and_metadata_are_no_duplicates(tmp_path: Path) -> None:
    header = {"__metadata__": {"run": '{"lr": 1}'}, "a:b": entry("U8", (1,), 0, 1)}
    assert opened(tmp_path, header, 1).findings == ()


def test_a_colon_cannot_hide_a_duplicate(tmp_path: Path) -> None:
    one = '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
    raw = f'{{"__metadata__":{{"a":":::"}},"w":{one},"w":{one}}}'
    finding = only(opened(tmp_path, raw.encode(), 1))
    assert finding.code == "duplicate_tensor_name"
    assert finding.where["shapes"] == [[1], [1]]


def test_a_long_name_is_not_quoted_whole(tmp_path: Path) -> None:
    finding = only(opened(tmp_path, {"x" * 4_000: entry("U8", (2,), 0, 1)}, 1))
    assert finding.code == "size_mismatch"
    assert len(finding.message) < 1000


def test_thousands_of_faults_make_one_finding(tmp_path: Path) -> None:
    finding = only(opened(tmp_path, {f"t{i}": entry("F32", (2,), i, i + 1) for i in range(3000)}, 3000))
    assert finding.where["count"] == 3000
    assert len(finding.where["more"]) == 19


MALFORMED = [
    '{"a":5}',
    '{"a":null}',
    '{"a":[]}',
    '{"a":{}}',
    '{"a":{"dtype":"U8","shape":[1]}}',
    '{"a":{"dtype":7,"shape":[1],"data_offsets":[0,1]}}',
    '{"a":{"dtype":["U8"],"shape":[1],"data_offsets":[0,1]}}',
    '{"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}}',
    '{"a":{"dtype":"U8","shape":{"1":1},"data_offsets":[0,1]}}',
    '{"a":{"dtype":"U8","shape":{},"data_offsets":[0,1]}}',
    '{"a":{"dtype":"U8","shape":"","data_offsets":[0,1]}}',
    '{"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}',
    '{"a":{"dtype":"U8","shape":[true],"data_offsets":[0,1]}}',
    '{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}',
    '{"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}}',
    '{"a":{"dtype":"U8","shape":[null],"data_offsets":[0,1]}}',
    '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}}',
    '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}}',
    '{"a":{"dtype":"U8","shape":[1],"data_offsets":[false,1]}}',
    '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0.0,1.0]}}',
    '{"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}}',
    '{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}',
    '{"a":{"dtype":"U8","shape":[1],"data_offsets":"01"}}',
    '{"a":{"dtype":"U8","shape":[1],"data_offsets":{"0":0,"1":1}}}',
    '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,9223372036854775808]}}',
]


@pytest.mark.parametrize("raw", MALFORMED)
def test_entries_that_are_none(raw: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        opened(tmp_path, raw.encode(), 1)
    assert caught.value.code == "header_malformed"
    assert caught.value.where["tensor"] == "a"
    assert caught.value.where["file"] == "model.safetensors"


def test_a_shape_seen_before_does_not_excuse_a_wrong_type(tmp_path: Path) -> None:
    """Shapes are looked up, and in Python (1,) == (True,) == (1.0,)."""
    for wrong in ("true", "1.0"):
        raw = (
            '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
            f'"b":{{"dtype":"U8","shape":[{wrong}],"data_offsets":[1,2]}}}}'
        )
        with pytest.raises(CheckpointError) as caught:
            opened(tmp_path, raw.encode(), 2)
        assert caught.value.where["tensor"] == "b"


NOT_JSON = [
    b"",
    b"[]",
    b"null",
    b'"text"',
    b"{",
    b'{"a":}',
    b"{} {}",
    b"{}\0\0",
    b"\xef\xbb\xbf{}",  # a byte order mark
    '{"a":1}'.encode("utf-16"),
    b'{"\xff":1}',
    b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":NaN}}',
    b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,Infinity]}}',
    b'{"\\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    b'{"a":' + b"9" * 5000 + b"}",
    b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    b'{"a":' + b'{"b":' * 100_000 + b"1" + b"}" * 100_001,
]


@pytest.mark.parametrize("raw", NOT_JSON, ids=range(len(NOT_JSON)))
def test_headers_that_are_no_json(raw: bytes, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        opened(tmp_path, raw, 1)
    assert caught.value.code == "header_not_json"
    assert "model.safetensors" in caught.value.message


def test_a_header_of_brackets_is_not_decoded(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="8,000,003 values; at most 4,000,000 are read"):
        opened(tmp_path, b'{"a":[' + b"[]," * 4_000_000 + b"[]]}", 0)


@pytest.mark.parametrize(
    ("start", "what"),
    [
        (b"GGUF\x03\x00\x00\x00", "GGUF"),
        (b"PK\x03\x04\x14\x00\x00\x00", "zip archive"),
        (b"\x80\x02\x8a\x0al\xfc\x9cF", "pickle"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"", "empty"),
        (b"\x10\x00\x00", "3 bytes long"),
    ],
)
def test_files_under_a_wrong_name(start: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(start + bytes(100) if len(start) > 7 else start)
    if start.startswith(b"GGUF"):
        path = path.rename(tmp_path / "model-00001-of-00001.safetensors")
        (tmp_path / "config.json").write_text("{}")
        path = tmp_path
    with pytest.raises(CheckpointError, match=what) as caught:
        open_checkpoint(path)
    assert caught.value.code == "not_safetensors"


def test_configs_beside_a_single_file(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"model_type": "llama", "rope_scaling": None})
    write_json(tmp_path / "generation_config.json", {"eos_token_id": 2})
    write_json(tmp_path / "something_else.json", {})
    checkpoint = open_checkpoint(write_tensors(tmp_path / "mine.safetensors", [("a", "U8", (1,))]))
    assert checkpoint.config == {"model_type": "llama", "rope_scaling": None}
    assert checkpoint.relatives == {"generation_config.json": {"eos_token_id": 2}}


def test_a_lone_shard_is_told(tmp_path: Path) -> None:
    path = write_tensors(tmp_path / "model-00002-of-00003.safetensors", [("a", "U8", (1,))])
    finding = only(open_checkpoint(path))
    assert (finding.code, finding.where["shard"], finding.where["shards"]) == ("single_shard", 2, 3)


def test_an_empty_header_is_an_empty_checkpoint(tmp_path: Path) -> None:
    finding = only(opened(tmp_path, {}, 0))
    assert (finding.code, finding.severity) == ("empty_checkpoint", "warning")


def test_a_file_that_ends_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tensors(tmp_path / "model.safetensors", [("a", "U8", (1,))])
    whole = path.read_bytes()
    monkeypatch.setattr("os.pread", lambda number, count, offset: whole[offset : offset + count - 5])
    with pytest.raises(CheckpointError, match="became shorter"):
        open_checkpoint(path)


def test_length_field_of_a_sparse_giant(tmp_path: Path) -> None:
    """The header is bounded before it is read: this file claims 40 MB of it and holds them, as a hole."""
    path = tmp_path / "model.safetensors"
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", 40_000_000))
        stream.truncate(200_000_000_000)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    assert caught.value.code == "header_not_json"
