"""Folders: which files are the checkpoint, and what index, shards and configs say of each other."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.inspector.readers.files import GgufWriter, TensorSpec, write_json, write_sharded, write_tensors

from ropewalk.errors import CheckpointError, CheckpointMissingError
from ropewalk.inspector.checkpoint import open_checkpoint

A: TensorSpec = ("a", "BF16", (4, 4))
B: TensorSpec = ("b", "BF16", (4, 4))
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    write_json(tmp_path / "config.json", {"model_type": "llama"})
    return write_sharded(tmp_path, {FIRST: [A], SECOND: [B]})


def codes(path: Path) -> list[str]:
    return [finding.code for finding in open_checkpoint(path).findings]


def change_index(folder: Path, **changes: Any) -> None:
    index = json.loads((folder / INDEX).read_text())
    write_json(folder / INDEX, index | changes)


@pytest.mark.parametrize("argument", ["", INDEX])
def test_shards_and_index(argument: str, sharded: Path) -> None:
    checkpoint = open_checkpoint(sharded / argument)
    assert checkpoint.findings == ()
    assert checkpoint.path == sharded
    assert checkpoint.source == str(sharded / argument)
    assert checkpoint.config == {"model_type": "llama"}
    assert [(tensor.name, tensor.file) for tensor in checkpoint.tensors] == [("a", FIRST), ("b", SECOND)]
    assert [file.name for file in checkpoint.files] == [FIRST, SECOND]


def test_shards_without_an_index(sharded: Path) -> None:
    (sharded / INDEX).unlink()
    checkpoint = open_checkpoint(sharded)
    assert checkpoint.findings == ()
    assert checkpoint.tensors.names == ["a", "b"]


def test_a_gap_in_the_numbers_of_shards(sharded: Path) -> None:
    (sharded / INDEX).unlink()
    (sharded / FIRST).unlink()
    (finding,) = open_checkpoint(sharded).findings
    assert finding.code == "missing_shards"
    assert finding.where["missing_files"] == [FIRST]
    assert finding.where["missing_tensors"] is None


def test_a_stale_copy_of_a_tensor_is_not_counted(sharded: Path) -> None:
    write_tensors(sharded / SECOND, [A, B])
    (finding,) = open_checkpoint(sharded).findings
    assert finding.code == "unindexed_tensor"
    assert finding.where["unindexed"] == [["a", SECOND]]
    assert open_checkpoint(sharded).tensors.total_bytes == 64


def test_a_tensor_in_another_shard_than_the_index_says(sharded: Path) -> None:
    change_index(sharded, weight_map={"a": SECOND, "b": SECOND})
    (sharded / FIRST).rename(sharded / "extra.safetensors")
    assert codes(sharded) == ["index_tensor_missing", "unindexed_file"]


@pytest.mark.parametrize(
    ("stated", "expected"), [(64, []), (64.0, []), (0, ["total_size_mismatch"]), (None, [])]
)
def test_total_size(stated: Any, expected: list[str], sharded: Path) -> None:
    """A published index says 0 (nvidia/Cosmos-Reason2-8B); some writers store a float."""
    change_index(sharded, metadata={"total_size": stated})
    assert codes(sharded) == expected


def test_a_missing_total_is_no_disagreement(sharded: Path) -> None:
    change_index(sharded, metadata=None)
    assert codes(sharded) == []


def test_all_shards_missing(sharded: Path) -> None:
    (sharded / FIRST).unlink()
    (sharded / SECOND).unlink()
    with pytest.raises(CheckpointError, match="2 shards are missing") as caught:
        open_checkpoint(sharded)
    assert caught.value.code == "missing_shards"


def test_one_unreadable_shard_leaves_the_others(sharded: Path) -> None:
    (sharded / FIRST).write_bytes(b"")
    checkpoint = open_checkpoint(sharded)
    (finding,) = checkpoint.findings
    assert (finding.code, finding.severity, finding.where["file"]) == ("not_safetensors", "error", FIRST)
    assert checkpoint.tensors.names == ["b"]
    assert [file.name for file in checkpoint.files] == [SECOND]


def test_no_readable_shard(sharded: Path) -> None:
    for shard in (FIRST, SECOND):
        (sharded / shard).write_bytes(b"PK\x03\x04")
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(sharded)
    assert caught.value.code == "not_safetensors"
    assert caught.value.where["file"] == FIRST


def test_a_dangling_link_is_a_missing_shard(sharded: Path) -> None:
    (sharded / FIRST).unlink()
    (sharded / FIRST).symlink_to("nowhere")
    assert codes(sharded) == ["missing_shards"]


MALFORMED = [
    "[]",
    "{}",
    '{"weight_map": {}}',
    '{"weight_map": []}',
    '{"weight_map": {"a": 1}}',
    '{"weight_map": {"a": ["x.safetensors"]}}',
    '{"weight_map": {"a": null}}',
    "{",
]


@pytest.mark.parametrize("text", MALFORMED)
def test_an_index_that_is_none(text: str, sharded: Path) -> None:
    (sharded / INDEX).write_text(text)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(sharded)
    assert caught.value.code == "index_malformed"
    assert caught.value.where["file"] == INDEX


LINES = [
    '{\n "weight_map": {\n  "a": "x.safetensors"\n }\n} {}',
    '{\n "weight_map": {\n  "a": "x.safetensors",\n }\n}',
    '{\n "weight_map": {\n  "a": "x.safetensors"\n }\n',
    '{\n "weight_map": {\n  "a": "x.safetensors";\n  "b": "x.safetensors"\n }\n}',
    '{\n "weight_map": {\n  "a": "x.safetensors"\n  "b": "x.safetensors"\n }\n}',
    '{\n "weight_map": {\n  "a": 5,\n  "b": "x.safetensors"\n }\n}',
    '[\n "weight_map": {\n  "a": "x.safetensors"\n }\n}',
    '{\n x "weight_map": {\n  "a": "x.safetensors"\n }\n}',
]


@pytest.mark.parametrize("text", LINES)
def test_an_index_that_only_looks_like_one(text: str, sharded: Path) -> None:
    """An index is read by lines where it can be; what is no JSON must not pass."""
    (sharded / INDEX).write_text(text)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(sharded)
    assert caught.value.code == "index_malformed"


def test_a_name_that_the_index_gives_twice(sharded: Path) -> None:
    """The last one counts, as for everybody who reads JSON; nothing is counted twice."""
    write_tensors(sharded / SECOND, [A, B])
    pairs = f'"a": "{FIRST}",\n    "b": "{SECOND}",\n    "a": "{SECOND}"'
    (sharded / INDEX).write_text('{\n  "weight_map": {\n    ' + pairs + "\n  }\n}\n")
    checkpoint = open_checkpoint(sharded)
    assert [(tensor.name, tensor.file) for tensor in checkpoint.tensors] == [("a", SECOND), ("b", SECOND)]
    assert codes(sharded) == ["duplicate_weights"]


UNSAFE = [
    "../other.safetensors",
    "/etc/other.safetensors",
    "a/../../other.safetensors",
    "..\\other.safetensors",
    "C:\\other.safetensors",
    "C:other.safetensors",
    "x\0.safetensors",
    "./other.safetensors/..",
    "",
]


@pytest.mark.parametrize("shard", UNSAFE)
def test_names_that_leave_the_folder(shard: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    write_tensors(tmp_path / "other.safetensors", [A])
    write_json(folder / INDEX, {"weight_map": {"a": shard}})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder)
    assert caught.value.code == "unsafe_path"


def test_a_link_that_leaves_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    write_sharded(folder, {FIRST: [A], SECOND: [B]})
    (folder / FIRST).rename(tmp_path / "outside.safetensors")
    (folder / FIRST).symlink_to(tmp_path / "outside.safetensors")
    with pytest.raises(CheckpointError, match="outside the folder") as caught:
        open_checkpoint(folder)
    assert caught.value.code == "unsafe_path"


def test_a_folder_that_is_a_link_out(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    write_tensors(elsewhere / "x.safetensors", [A])
    (folder / "sub").symlink_to(elsewhere)
    write_json(folder / INDEX, {"weight_map": {"a": "sub/x.safetensors"}})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder)
    assert caught.value.code == "unsafe_path"


def test_shards_in_a_subfolder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    write_tensors(tmp_path / "sub" / "x.safetensors", [A])
    write_json(tmp_path / INDEX, {"weight_map": {"a": "sub/x.safetensors"}})
    assert open_checkpoint(tmp_path).findings == ()


def test_links_within_the_hub_cache(tmp_path: Path) -> None:
    """How huggingface_hub lays a snapshot out: snapshots/COMMIT/file -> ../../blobs/HASH."""
    repository = tmp_path / "models--org--name"
    snapshot, blobs = repository / "snapshots" / ("0" * 40), repository / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    write_sharded(snapshot, {FIRST: [A], SECOND: [B]})
    for number, path in enumerate(sorted(snapshot.iterdir())):
        path.rename(blobs / f"{number:064x}")
        path.symlink_to(os.path.join("..", "..", "blobs", f"{number:064x}"))
    assert open_checkpoint(snapshot).findings == ()
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    assert open_checkpoint(repository).path == snapshot
    (repository / "refs" / "main").write_text("../..")
    with pytest.raises(CheckpointMissingError):
        open_checkpoint(repository)
    assert open_checkpoint(snapshot / FIRST).tensors.names == ["a"]


def test_a_link_that_the_user_names_is_his_own(tmp_path: Path) -> None:
    path = write_tensors(tmp_path / "outside.safetensors", [A])
    folder = tmp_path / "links"
    folder.mkdir()
    (folder / "mine.safetensors").symlink_to(path)
    assert open_checkpoint(folder / "mine.safetensors").tensors.names == ["a"]


def test_files_that_are_none(tmp_path: Path) -> None:
    """A pipe would block the reader, a device never ends."""
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="not a regular file"):
        open_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match="not a regular file"):
        open_checkpoint("/dev/zero")


def test_one_file_wins_over_shards_without_index(sharded: Path) -> None:
    (sharded / INDEX).unlink()
    write_tensors(sharded / "model.safetensors", [A, B])
    checkpoint = open_checkpoint(sharded)
    assert [file.name for file in checkpoint.files] == ["model.safetensors"]
    assert [finding.code for finding in checkpoint.findings] == ["duplicate_weights"]


def test_mistrals_own_layout(tmp_path: Path) -> None:
    write_tensors(tmp_path / "consolidated.safetensors", [A])
    write_json(tmp_path / "params.json", {"dim": 4096})
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.findings == ()
    assert checkpoint.relatives == {"params.json": {"dim": 4096}}
    assert checkpoint.tensors.names == ["a"]


def test_an_adapter_of_its_own_and_beside_a_model(tmp_path: Path) -> None:
    write_json(tmp_path / "adapter_config.json", {"peft_type": "LORA", "r": 16})
    write_tensors(tmp_path / "adapter_model.safetensors", [("lora_A", "F32", (16, 4))])
    adapter = open_checkpoint(tmp_path)
    assert (adapter.findings, adapter.tensors.names) == ((), ["lora_A"])
    assert adapter.relatives["adapter_config.json"]["r"] == 16
    write_tensors(tmp_path / "model.safetensors", [A])
    model = open_checkpoint(tmp_path)
    assert model.tensors.names == ["a"]
    assert [finding.code for finding in model.findings] == ["unindexed_file"]


def test_unnumbered_files_are_taken_together(tmp_path: Path) -> None:
    """mlx-lm once wrote weights.00.safetensors, weights.01.safetensors."""
    write_tensors(tmp_path / "weights.00.safetensors", [A])
    write_tensors(tmp_path / "weights.01.safetensors", [A, B])
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.tensors.names == ["a", "b"]
    (finding,) = checkpoint.findings
    assert (finding.code, finding.where["tensors"]) == ("duplicate_weights", ["a"])


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model-00001-of-00002.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path)
    assert caught.value.code == "pickle_only"
    write_json(tmp_path / "config.json", {"model_type": "llama"})
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.format == "config"
    assert checkpoint.config == {"model_type": "llama"}
    (finding,) = checkpoint.findings
    assert (finding.code, finding.severity) == ("pickle_only", "error")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pt", "model.ckpt"])
def test_a_pickle_as_the_argument(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04")
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path / name)
    assert caught.value.code == "pickle_only"


def test_an_index_of_pickles(tmp_path: Path) -> None:
    index = tmp_path / "pytorch_model.bin.index.json"
    write_json(index, {"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(index)
    assert caught.value.code == "pickle_only"


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointMissingError) as caught:
        open_checkpoint(tmp_path)
    assert caught.value.code == "empty_checkpoint"
    for absent in (tmp_path / "absent", tmp_path / "absent.gguf", "absent.safetensors", "x\0y", ""):
        with pytest.raises(CheckpointMissingError, match="no such file or folder"):
            open_checkpoint(absent)


def test_a_path_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not UTF-8") as caught:
        open_checkpoint(f"{tmp_path}/\udcff.safetensors")
    caught.value.message.encode()
    json.dumps(caught.value.record(), ensure_ascii=False).encode()


def test_neighbours_whose_names_are_no_text(tmp_path: Path) -> None:
    write_tensors(tmp_path / "model.safetensors", [A])
    (tmp_path / "\udcff.safetensors").write_bytes(b"")
    assert open_checkpoint(tmp_path).findings == ()


def test_a_config_alone(tmp_path: Path) -> None:
    write_json(tmp_path / "generation_config.json", {"top_k": 50})
    path = write_json(tmp_path / "config.json", {"model_type": "llama"})
    for source in (tmp_path, path):
        checkpoint = open_checkpoint(source)
        assert (checkpoint.format, checkpoint.path) == ("config", source)
        assert checkpoint.config == {"model_type": "llama"}
        assert checkpoint.relatives == {"generation_config.json": {"top_k": 50}}
        assert (len(checkpoint.tensors), checkpoint.files, checkpoint.findings) == (0, (), ())


def test_a_config_under_another_name(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"model_type": "other"})
    path = write_json(tmp_path / "qwen3.json", {"model_type": "qwen3"})
    assert open_checkpoint(path).config == {"model_type": "qwen3"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": "\\udc00"}', "\ufeff{}"])
def test_a_config_that_is_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    for source in (path, tmp_path):
        with pytest.raises(CheckpointError) as caught:
            open_checkpoint(source)
        assert caught.value.code == "config_not_json"
    write_tensors(tmp_path / "model.safetensors", [A])
    checkpoint = open_checkpoint(tmp_path)
    (finding,) = checkpoint.findings
    assert (finding.code, finding.severity, finding.where["file"]) == (
        "config_not_json",
        "error",
        "config.json",
    )
    assert (checkpoint.config, checkpoint.tensors.names) == ({}, ["a"])


def test_a_relative_that_is_none_is_a_warning(tmp_path: Path) -> None:
    write_tensors(tmp_path / "model.safetensors", [A])
    (tmp_path / "generation_config.json").write_text("{")
    (finding,) = open_checkpoint(tmp_path).findings
    assert (finding.code, finding.severity) == ("config_not_json", "warning")


def test_a_key_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"rope_scaling": {"factor": 2, "factor": 4}, "vocab_size": 1, "vocab_size": 2}')
    checkpoint = open_checkpoint(path)
    assert [finding.where["field"] for finding in checkpoint.findings] == ["factor", "vocab_size"]
    assert checkpoint.config == {"rope_scaling": {"factor": 4}, "vocab_size": 2}


def test_a_folder_with_one_gguf(tmp_path: Path) -> None:
    path = GgufWriter().key("general.architecture", "string", "llama").write(tmp_path / "model-Q4_0.gguf")
    GgufWriter().key("general.architecture", "string", "clip").write(tmp_path / "mmproj-model-f16.gguf")
    checkpoint = open_checkpoint(tmp_path)
    assert (checkpoint.format, checkpoint.path) == ("gguf", path)
    assert checkpoint.gguf == {"general.architecture": "llama"}


def test_a_folder_with_several_ggufs(tmp_path: Path) -> None:
    for name in ("m-Q4_0.gguf", "m-Q8_0.gguf"):
        GgufWriter().write(tmp_path / name)
    with pytest.raises(CheckpointError, match=r"m-Q4_0\.gguf, m-Q8_0\.gguf") as caught:
        open_checkpoint(tmp_path)
    assert caught.value.code == "ambiguous_checkpoint"


def test_the_collector_is_on_again(sharded: Path) -> None:
    assert gc.isenabled()
    open_checkpoint(sharded)
    assert gc.isenabled()
    (sharded / FIRST).unlink()
    (sharded / SECOND).unlink()
    with pytest.raises(CheckpointError):
        open_checkpoint(sharded)
    assert gc.isenabled()
