"""What is larger than any checkpoint is refused, before it costs memory, by an error that names the limit."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from tests.inspector.readers.files import safetensors_bytes, write_json, write_sharded, write_tensors

from ropewalk import limits
from ropewalk.errors import CheckpointError
from ropewalk.inspector import tensors
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.inspector.readers import index as index_module
from ropewalk.inspector.readers.jsonfile import JsonBudget, parse_object


def refusal(source: Path) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(source)
    return caught.value


def gguf(path: Path, keys: list[bytes]) -> Path:
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + b"".join(keys))
    return path


def text(raw: bytes) -> bytes:
    return struct.pack("<Q", len(raw)) + raw


def test_a_name_of_a_megabyte(tmp_path: Path) -> None:
    error = refusal(write_tensors(tmp_path / "model.safetensors", [("x" * 2**20, "U8", (1,))]))
    assert (error.code, error.where["count"], error.where["limit"]) == ("too_large", 2**20, 4096)


def test_tensors_and_names_are_counted_over_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = {f"model-0000{i}-of-00003.safetensors": [(f"layer{i}", "U8", (1,))] for i in (1, 2, 3)}
    folder = write_sharded(tmp_path, shards)
    monkeypatch.setattr(tensors, "MAX_ALL_NAME_CHARS", 17)
    error = refusal(folder)
    assert "18 characters in the names of its tensors; at most 17 are read" in error.message
    monkeypatch.setattr(tensors, "MAX_TENSORS", 2)
    assert "3 tensors; at most 2 are read" in refusal(folder).message


def test_an_index_of_more_tensors_or_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = {f"a{i}": f"{i}.safetensors" for i in range(limits.MAX_FILES + 1)}
    write_json(tmp_path / "model.safetensors.index.json", {"weight_map": many})
    assert "2,001 shards; at most 2,000 are read" in refusal(tmp_path).message
    monkeypatch.setattr(index_module, "MAX_TENSORS", 100)
    assert "tensors; at most 100 are read" in refusal(tmp_path).message


def test_a_set_of_more_parts(tmp_path: Path) -> None:
    path = gguf(tmp_path / "m-00001-of-99999.gguf", [])
    assert "99,999 parts; at most 2,000 are read" in refusal(path).message


def test_metadata_of_millions_of_keys_is_not_decoded(tmp_path: Path) -> None:
    keys = b",".join(b'"%x":"a"' % number for number in range(2_100_000))
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors_bytes(b'{"__metadata__":{' + keys + b"}}", 0))
    assert "2,100,001 keys; at most 2,000,000 are read" in refusal(path).message


@pytest.mark.parametrize("value", [[1.5] * 60, {f"{n:x}": 1 for n in range(20)}], ids=["values", "keys"])
def test_configs_share_what_may_be_decoded(value: Any) -> None:
    raw, budget = json.dumps({"x": value}, separators=(",", ":")).encode(), JsonBudget(1000, 100, 40)
    parse_object(raw, file="config.json", budget=budget)
    with pytest.raises(CheckpointError, match=r"tokenizer_config.json has .* are read"):
        parse_object(raw, file="tokenizer_config.json", budget=budget)


def test_a_gguf_of_many_arrays(tmp_path: Path) -> None:
    array = struct.pack("<IIQ", 9, 1, 4096) + bytes(4096)
    error = refusal(gguf(tmp_path / "m.gguf", [text(b"k%d" % n) + array for n in range(300)]))
    assert "more than 1,048,576 numbers, with the 4,096 of k256" in error.message


def test_a_gguf_of_many_texts(tmp_path: Path) -> None:
    long = struct.pack("<I", 8) + text(bytes(15_000_000))
    error = refusal(gguf(tmp_path / "m.gguf", [text(b"k%d" % n) + long for n in range(5)]))
    assert "more than 67,108,864 bytes of text" in error.message


def test_a_config_of_a_hundred_thousand_layers(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"model_type": "llama", "num_hidden_layers": 100_000})
    with pytest.raises(CheckpointError, match=r"num_hidden_layers is 100000, expected .* to 10,000"):
        inspect_checkpoint(open_checkpoint(tmp_path))
