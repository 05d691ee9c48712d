"""Properties: what is written is read back; the order of names and the split into files do not matter."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.inspector.readers.files import GgufWriter, TensorSpec, header_of, write_sharded

from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.readers.cursor import Cursor
from ropewalk.inspector.readers.dtypes import BITS
from ropewalk.inspector.readers.ggml_types import GGML_TYPES
from ropewalk.inspector.readers.gguf import parse_gguf
from ropewalk.inspector.readers.index import parse_index
from ropewalk.inspector.readers.safetensors import SNIFF_BYTES, HeaderReader
from ropewalk.inspector.records import SkippedArray

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda name: name != "__metadata__"
)
SHAPES = st.lists(st.integers(0, 2**20), max_size=4).filter(lambda shape: prod(shape) < 2**50)


@st.composite
def tensors(draw: st.DrawFn) -> list[TensorSpec]:
    names = draw(st.lists(TEXT, unique=True, max_size=8))
    dtypes = st.sampled_from(sorted(BITS))
    specs = [(name, draw(dtypes), draw(SHAPES)) for name in names]
    return [(name, dtype, shape) for name, dtype, shape in specs if prod(shape) * BITS[dtype] % 8 == 0]


@given(
    tensors(),
    st.none() | st.dictionaries(TEXT, TEXT, max_size=3),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_safetensors_round_trip(
    specs: list[TensorSpec], metadata: dict[str, str] | None, random: Any, ascii_only: bool
) -> None:
    header = header_of(specs, metadata)
    items = list(header.items())
    random.shuffle(items)
    raw = json.dumps(dict(items), ensure_ascii=ascii_only).encode()
    size = max(
        (end for name, item in items if name != "__metadata__" for end in item["data_offsets"]), default=0
    )
    read = HeaderReader().read(raw, file="f", data_bytes=size)
    assert read.findings == ()
    columns = read.columns
    got = dict(
        zip(columns.names, zip(columns.dtypes, columns.shapes, columns.offsets, strict=True), strict=True)
    )
    assert got == {
        name: (item["dtype"], tuple(item["shape"]), item["data_offsets"][0])
        for name, item in items
        if name != "__metadata__"
    }
    assert sum(columns.nbytes) == size


@given(tensors(), st.integers(-3, 3).filter(bool))
def test_any_other_size_of_the_data_is_told(specs: list[TensorSpec], change: int) -> None:
    header = header_of(specs)
    size = sum(prod(shape) * BITS[dtype] // 8 for _, dtype, shape in specs)
    if size + change < 0:
        return
    read = HeaderReader().read(json.dumps(header).encode(), file="f", data_bytes=size + change)
    assert [finding.code for finding in read.findings] == [
        "truncated_payload" if change < 0 else "trailing_bytes"
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_shards_add_up(tmp_path: Path, sizes: list[int]) -> None:
    for path in tmp_path.iterdir():
        path.unlink()
    names = [f"model-{number:05d}-of-{len(sizes):05d}.safetensors" for number in range(1, len(sizes) + 1)]
    shards: dict[str, list[TensorSpec]] = {
        name: [(f"{name[6:11]}.{number}", "F32", (number + 1,)) for number in range(size)]
        for name, size in zip(names, sizes, strict=True)
    }
    checkpoint = open_checkpoint(write_sharded(tmp_path, shards))
    assert checkpoint.findings == ()
    assert checkpoint.tensors.names == [name for specs in shards.values() for name, _, _ in specs]
    assert checkpoint.tensors.total_bytes == sum(
        4 * prod(shape) for specs in shards.values() for *_, shape in specs
    )
    assert sum(file.bytes for file in checkpoint.files) == sum(
        (tmp_path / name).stat().st_size for name in names
    )


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    "bool": st.booleans(),
    "float32": st.floats(width=32, allow_nan=False),
    "float64": st.floats(allow_nan=False),
    **{f"uint{bits}": st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    **{f"int{bits}": st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
}


@st.composite
def keys(draw: st.DrawFn) -> dict[str, tuple[str, Any]]:
    names = draw(st.lists(TEXT.filter(lambda name: name != "general.alignment"), unique=True, max_size=6))
    kinds = {name: draw(st.sampled_from(sorted(VALUES))) for name in names}
    return {
        name: (kind, draw(VALUES[kind] | st.lists(VALUES[kind], max_size=5))) for name, kind in kinds.items()
    }


@st.composite
def ggml_tensors(draw: st.DrawFn) -> list[TensorSpec]:
    names = draw(st.lists(TEXT.filter(lambda name: len(name.encode()) < 64), unique=True, max_size=6))
    specs: list[TensorSpec] = []
    for name in names:
        kind = draw(st.sampled_from(list(GGML_TYPES.values())))
        outer = draw(st.lists(st.integers(0, 100), max_size=3))
        specs.append((name, kind.name, [*outer, kind.block_len * draw(st.integers(0, 100))]))
    return specs


WRITERS = st.builds(
    GgufWriter,
    version=st.sampled_from([2, 3]),
    order=st.sampled_from(["<", ">"]),
    alignment=st.sampled_from([8, 32, 256]),
)


@given(WRITERS, keys(), ggml_tensors())
def test_gguf_round_trip(
    writer: GgufWriter, given_keys: dict[str, tuple[str, Any]], specs: list[TensorSpec]
) -> None:
    writer.key("general.alignment", "uint32", writer.alignment)
    for name, (kind, value) in given_keys.items():
        if isinstance(value, list):
            writer.array(name, kind, value)
        else:
            writer.key(name, kind, value)
    for name, dtype, shape in specs:
        writer.tensor(name, dtype, shape)
    raw = writer.header() + bytes(4096 + SNIFF_BYTES)  # data that a look ahead may reach
    size = len(writer.header()) + writer.data_bytes
    file = parse_gguf(Cursor(lambda at, count: raw[at : at + count], size=size, file="f", window_bytes=16))
    assert [finding.code for finding in file.findings] == ["big_endian"] * (writer.order == ">")
    assert file.keys == {"general.alignment": writer.alignment} | {
        name: SkippedArray("string", len(value)) if kind == "string" and isinstance(value, list) else value
        for name, (kind, value) in given_keys.items()
    }
    read = zip(file.columns.names, file.columns.dtypes, file.columns.shapes, strict=True)
    assert list(read) == [(name, dtype, tuple(shape)) for name, dtype, shape in specs]
    assert all(start % writer.alignment == 0 for start in file.columns.offsets)


@given(
    st.dictionaries(TEXT, st.sampled_from(["a.safetensors", "b.safetensors"]), min_size=1),
    st.sampled_from([None, 0, 1, 2, 4, "\t"]),
    st.booleans(),
    st.booleans(),
)
def test_an_index_in_any_layout(
    weight_map: dict[str, str], indent: int | str | None, ascii_only: bool, map_first: bool
) -> None:
    parts: list[tuple[str, Any]] = [("metadata", {"total_size": 5}), ("weight_map", weight_map)]
    data = dict(reversed(parts) if map_first else parts)
    index = parse_index(json.dumps(data, indent=indent, ensure_ascii=ascii_only).encode(), file="f")
    assert index.total_bytes == 5
    assert {name: shard for shard, names in index.shards.items() for name in names} == weight_map


@given(st.integers(1, 2000), st.integers(0, 200))
def test_an_index_of_many_blocks(count: int, padding: int) -> None:
    weight_map = {f"layer.{'x' * padding}.{number}": f"{number % 7}.safetensors" for number in range(count)}
    raw = json.dumps({"metadata": {}, "weight_map": weight_map}, indent=2).encode()
    index = parse_index(raw, file="f")
    assert {name: shard for shard, names in index.shards.items() for name in names} == weight_map
