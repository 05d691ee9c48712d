"""Indexes as published, with shards made after them: sparse, but of the right names, shapes and sizes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.inspector.readers.files import TensorSpec, header_of, safetensors_bytes

from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.readers.index import parse_index

# (tensors, shards, total_size) of model.safetensors.index.json at the time of writing; the header's names and
# bytes agree with each.
PUBLISHED = {
    "HuggingFaceTB--SmolLM3-3B": (326, 2, 6_150_197_248),
    "WizardLM--WizardLM-2-8x22B": (1739, 59, 281_241_268_224),
    "deepcogito--cogito-v1-preview-qwen-14B": (579, 6, 29_531_895_808),
    "google--gemma-2b": (164, 2, 5_012_344_832),
    "mistralai--Devstral-Small-2507": (363, 10, 47_144_806_400),
}


def lay_out(folder: Path, index: Path, header: Path) -> None:
    """The index and the shards that it names, their data holes."""
    shutil.copy(index, folder / "model.safetensors.index.json")
    tensors: dict[str, tuple[str, list[int]]] = json.loads(header.read_text())
    for shard, names in parse_index(index.read_bytes(), file=index.name).shards.items():
        specs: list[TensorSpec] = [(name, *tensors[name]) for name in names]
        contents = header_of(specs, {"format": "pt"})
        raw = safetensors_bytes(contents, 0)
        with (folder / shard).open("wb") as stream:
            stream.write(raw)
            stream.truncate(len(raw) + max(contents[name]["data_offsets"][1] for name in names))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_checkpoint_has_no_fault(name: str, shared: Path, tmp_path: Path) -> None:
    corpus = shared / "corpus"
    lay_out(tmp_path, corpus / "index" / f"{name}.json", corpus / "headers" / f"{name}.json")
    num_tensors, num_shards, total_size = PUBLISHED[name]
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.findings == ()
    assert (len(checkpoint.tensors), len(checkpoint.files)) == (num_tensors, num_shards)
    assert checkpoint.tensors.total_bytes == total_size


def test_every_published_index_can_be_read(shared: Path) -> None:
    paths = sorted((shared / "corpus" / "index").glob("*.json"))
    assert len(paths) == 21
    for path in paths:
        index = parse_index(path.read_bytes(), file=path.name)
        weight_map = json.loads(path.read_text())["weight_map"]
        assert {name: shard for shard, names in index.shards.items() for name in names} == weight_map
