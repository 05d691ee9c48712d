"""Public reports of files that readers got wrong, as inputs with the right answers.

Each test names the thread it comes from. Sizes and names are those of the report, reduced where it says so.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from tests.inspector.readers.files import (
    GgufWriter,
    entry,
    header_of,
    safetensors_bytes,
    write_json,
    write_sharded,
    write_tensors,
)

from ropewalk.errors import CheckpointError
from ropewalk.findings import Finding
from ropewalk.inspector.checkpoint import open_checkpoint


def written(folder: Path, header: dict[str, Any] | bytes, payload: int) -> Path:
    path = folder / "model.safetensors"
    path.write_bytes(safetensors_bytes(header, payload))
    return path


def only(path: Path) -> Finding:
    (finding,) = open_checkpoint(path).findings
    return finding


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 4976698672\n"


@pytest.mark.parametrize("name", ["model.safetensors", "model.gguf", "config.json"])
def test_lfs_pointer(name: str, tmp_path: Path) -> None:
    """microsoft/OmniParser#34, huggingface/transformers#27923, huggingface/diffusers#13559"""
    path = tmp_path / name
    path.write_text(POINTER)
    with pytest.raises(CheckpointError, match="git lfs pull") as caught:
        open_checkpoint(path)
    assert caught.value.code == "lfs_pointer"
    assert caught.value.where["declared_size_bytes"] == 4976698672
    assert caught.value.where["actual_size_bytes"] == 135


def test_interrupted_download(tmp_path: Path) -> None:
    """Comfy-Org/ComfyUI#6744, invoke-ai/InvokeAI#7009, lyogavin/airllm#137"""
    path = written(tmp_path, {"a": entry("F32", (2, 2), 0, 16), "b": entry("F32", (2,), 16, 24)}, 20)
    finding = only(path)
    assert (finding.code, finding.severity) == ("truncated_payload", "error")
    assert finding.where == {
        "file": "model.safetensors",
        "expected_payload_bytes": 24,
        "actual_payload_bytes": 20,
        "missing_bytes": 4,
        "first_incomplete_tensor": "b",
    }
    assert open_checkpoint(path).tensors.names == ["a", "b"]


def test_header_length_beyond_the_file(tmp_path: Path) -> None:
    """safetensors/safetensors#414, leejet/stable-diffusion.cpp#1754"""
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", 5000) + b"{" + b" " * 126 + b"}" + bytes(24))
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    assert caught.value.code == "header_length_exceeds_file"
    assert caught.value.where == {"file": "model.safetensors", "declared": 5000, "available": 152}


def test_header_above_the_limit_of_the_format(tmp_path: Path) -> None:
    """safetensors/safetensors#668: 1.29 million tensors"""
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes.fromhex("409DDF0700000000") + b"{}")
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    assert caught.value.code == "header_too_large"
    assert caught.value.where["header_bytes"] == 132_095_296
    assert caught.value.where["limits"] == {"safetensors": 100_000_000, "huggingface_hub": 25_000_000}


@pytest.mark.parametrize(("header_bytes", "codes"), [(25_000_000, []), (30_000_000, ["header_too_large"])])
def test_header_above_the_limit_of_the_hub(header_bytes: int, codes: list[str], tmp_path: Path) -> None:
    """safetensors/safetensors#668: safetensors reads it, huggingface_hub 2.4.0 does not"""
    raw = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    findings = open_checkpoint(written(tmp_path, raw.ljust(header_bytes), 1)).findings
    assert [finding.code for finding in findings] == codes
    assert all(finding.severity == "warning" for finding in findings)


def test_a_name_given_twice(tmp_path: Path) -> None:
    """huggingface/safetensors, README, "Format": duplicate keys are disallowed. 0.8.0 keeps one silently."""
    raw = (
        b'{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},'
        b'"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
    )
    finding = only(written(tmp_path, raw, 16))
    assert (finding.code, finding.where["name"]) == ("duplicate_tensor_name", "a")
    assert finding.where["shapes"] == [[2, 2], [4]]


def test_two_tensors_in_the_same_bytes(tmp_path: Path) -> None:
    """ohdearquant/lattice#752, antirez/h3.c#48"""
    header = {"k_proj.weight": entry("F32", (2, 2), 0, 16), "v_proj.weight": entry("F32", (2, 2), 0, 16)}
    finding = only(written(tmp_path, header, 16))
    assert (finding.code, finding.severity) == ("aliased_ranges", "error")
    assert finding.where["tensors"] == ["k_proj.weight", "v_proj.weight"]


def test_overlapping_ranges(tmp_path: Path) -> None:
    """safetensors/safetensors#586"""
    header = {"a": entry("F32", (2, 2), 0, 16), "b": entry("F32", (2,), 8, 16)}
    finding = only(written(tmp_path, header, 16))
    assert (finding.code, finding.where["tensors"], finding.where["bytes"]) == (
        "overlapping_ranges",
        ["a", "b"],
        8,
    )


def test_a_hole_in_the_data(tmp_path: Path) -> None:
    """ml-explore/mlx#3363"""
    header = {"a": entry("F32", (2, 2), 0, 16), "b": entry("F32", (2,), 24, 32)}
    finding = only(written(tmp_path, header, 32))
    assert (finding.code, finding.where["range"]) == ("hole_in_data", [16, 24])


def test_the_order_of_names_is_free(tmp_path: Path) -> None:
    """The counter-example to the three before: sorted by offset this file is sound."""
    header = {"b": entry("F32", (2,), 16, 24), "a": entry("F32", (2, 2), 0, 16)}
    assert open_checkpoint(written(tmp_path, header, 24)).findings == ()


def test_empty_tensors_and_scalars_are_legal(tmp_path: Path) -> None:
    """promptfoo/modelaudit#1607"""
    header = {
        "scaled_fp8": entry("F8_E4M3", (0,), 0, 0),
        "w": entry("F8_E4M3", (4, 4), 0, 16),
        "scale": entry("F32", (), 16, 20),
    }
    checkpoint = open_checkpoint(written(tmp_path, header, 20))
    assert checkpoint.findings == ()
    assert [tensor.elements for tensor in checkpoint.tensors] == [0, 16, 1]
    assert checkpoint.tensors.total_bytes == 20


def test_an_empty_range_for_a_tensor_that_is_not(tmp_path: Path) -> None:
    """promptfoo/modelaudit#1607, the bad variant"""
    finding = only(written(tmp_path, {"x": entry("F32", (1,), 0, 0)}, 0))
    assert (finding.code, finding.severity) == ("size_mismatch", "error")
    assert (finding.where["expected_bytes"], finding.where["actual_bytes"]) == (4, 0)


def test_bytes_of_packed_weights_are_the_headers(tmp_path: Path) -> None:
    """huggingface/huggingface.js#2323 (gpt-oss-20b's MXFP4 blocks), #1770 (GPTQ and MLX words)"""
    tensors = {
        "experts.gate_up_proj_blocks": ("U8", (32, 5760, 90, 16), 265_420_800),
        "experts.gate_up_proj_scales": ("U8", (32, 5760, 90), 16_588_800),
        "q_proj.qweight": ("I32", (512, 4096), 8_388_608),
        "mlx.weight": ("U32", (4096, 512), 8_388_608),
    }
    header = header_of([(name, dtype, shape) for name, (dtype, shape, _) in tensors.items()])
    raw = safetensors_bytes(header, 0)
    with (tmp_path / "model.safetensors").open("wb") as stream:
        stream.write(raw)
        stream.truncate(len(raw) + sum(nbytes for _, _, nbytes in tensors.values()))
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.findings == ()
    assert list(checkpoint.tensors.nbytes) == [nbytes for _, _, nbytes in tensors.values()]


def test_an_index_that_points_to_the_wrong_shard(tmp_path: Path) -> None:
    """huggingface/huggingface_hub#4725, #4728: 1,199 names in the index, 1,198 tensors in 12 shards"""
    write_tensors(tmp_path / "model-00001-of-00002.safetensors", [("a", "BF16", (4, 4))])
    write_tensors(tmp_path / "model-00002-of-00002.safetensors", [("c", "BF16", (4, 4))])
    weight_map = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    write_json(
        tmp_path / "model.safetensors.index.json", {"metadata": {"total_size": 64}, "weight_map": weight_map}
    )
    checkpoint = open_checkpoint(tmp_path)
    missing, unindexed = checkpoint.findings
    assert (missing.code, missing.severity) == ("index_tensor_missing", "error")
    assert missing.where["missing"] == [["b", "model-00002-of-00002.safetensors"]]
    assert (unindexed.code, unindexed.severity) == ("unindexed_tensor", "warning")
    assert unindexed.where["unindexed"] == [["c", "model-00002-of-00002.safetensors"]]
    assert checkpoint.tensors.names == ["a"]


SHARDS = {
    "model-00001-of-00002.safetensors": [("a", "BF16", (4, 4))],
    "model-00002-of-00002.safetensors": [("b", "BF16", (4, 4))],
}


def test_a_consolidated_copy_beside_the_shards(tmp_path: Path) -> None:
    """vllm-project/vllm#40765, NVIDIA/TensorRT-LLM#7225, Blaizzy/mlx-vlm#1464"""
    write_sharded(tmp_path, SHARDS)
    write_tensors(tmp_path / "consolidated.safetensors", [("a", "BF16", (4, 4)), ("b", "BF16", (4, 4))])
    checkpoint = open_checkpoint(tmp_path)
    (finding,) = checkpoint.findings
    assert checkpoint.tensors.total_bytes == 64
    assert [file.name for file in checkpoint.files] == list(SHARDS)
    assert (finding.code, finding.severity) == ("duplicate_weights", "warning")
    assert finding.where["ignored"] == ["consolidated.safetensors"]
    assert finding.where["files_used"] == list(SHARDS)


def test_one_file_beside_an_index(tmp_path: Path) -> None:
    """The same threads, the variant: huggingface_hub picks model.safetensors, vLLM the files of the index."""
    write_sharded(tmp_path, {"model-00001-of-00001.safetensors": [("a", "BF16", (4, 4))]})
    write_tensors(tmp_path / "model.safetensors", [("a", "BF16", (4, 4))])
    checkpoint = open_checkpoint(tmp_path)
    (finding,) = checkpoint.findings
    assert checkpoint.tensors.total_bytes == 32
    assert finding.code == "duplicate_weights"
    assert "huggingface_hub" in finding.message
    assert "vLLM" in finding.message


def test_shards_that_are_not_there(tmp_path: Path) -> None:
    """huggingface/huggingface_hub#4725, vllm-project/vllm#7953"""
    names = [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]
    write_tensors(tmp_path / names[0], [("a", "BF16", (4, 4))])
    index = {"metadata": {"total_size": 64}, "weight_map": dict(zip("abc", names, strict=True))}
    write_json(tmp_path / "model.safetensors.index.json", index)
    checkpoint = open_checkpoint(tmp_path)
    (finding,) = checkpoint.findings
    assert (finding.code, finding.severity) == ("missing_shards", "error")
    assert finding.where["missing_files"] == names[1:]
    assert finding.where["missing_tensors"] == 2
    assert (finding.where["bytes_present"], finding.where["bytes_expected"]) == (32, 64)
    assert checkpoint.tensors.names == ["a"]


def write_split(folder: Path) -> list[Path]:
    """A GGUF in three parts, the first without tensors."""
    parts = [GgufWriter(), GgufWriter(), GgufWriter()]
    for number, part in enumerate(parts):
        part.key("split.no", "uint16", number).key("split.count", "uint16", 3)
        part.key("split.tensors.count", "int32", 4)
    parts[0].key("general.architecture", "string", "llama")
    parts[1].tensor("token_embd.weight", "F16", (64, 32)).tensor("blk.0.attn_q.weight", "F16", (64, 64))
    parts[2].tensor("blk.0.attn_k.weight", "F16", (64, 16)).tensor("output.weight", "F16", (64, 32))
    return [
        part.write(folder / f"m-0000{number}-of-00003.gguf") for number, part in enumerate(parts, start=1)
    ]


@pytest.mark.parametrize("given", [0, 1, 2])
def test_any_part_of_a_split_gguf_opens_the_whole(given: int, tmp_path: Path) -> None:
    """Quartermaster-Labs/Quartermaster#15, tmac1973/llama-toolchest#155, FlashML-org/FreeToken#154"""
    paths = write_split(tmp_path)
    checkpoint = open_checkpoint(paths[given])
    assert checkpoint.findings == ()
    assert len(checkpoint.tensors) == 4
    assert list(checkpoint.tensors.nbytes) == [4096, 8192, 2048, 4096]
    assert checkpoint.tensors.total_bytes == 18_432
    assert checkpoint.gguf["general.architecture"] == "llama"
    assert checkpoint.path == paths[0]


def test_a_split_gguf_without_its_third_part(tmp_path: Path) -> None:
    """The same threads: what is there is listed, what is not is named"""
    paths = write_split(tmp_path)
    paths[2].unlink()
    checkpoint = open_checkpoint(paths[1])
    (finding,) = checkpoint.findings
    assert (finding.code, finding.severity) == ("missing_shards", "error")
    assert finding.where["missing_files"] == ["m-00003-of-00003.gguf"]
    assert (finding.where["tensors_present"], finding.where["tensors_expected"]) == (2, 4)
    assert "2 of 4 tensors" in finding.message
