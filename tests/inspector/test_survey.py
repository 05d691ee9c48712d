"""Folders with several checkpoints, and addresses as they are pasted."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.inspector.readers.files import GgufWriter, write_json, write_tensors

from ropewalk.inspector.readers.hubsource import parse_hub_id
from ropewalk.inspector.survey import survey


def a_folder(tmp_path: Path) -> Path:
    for name in ("m-Q4_0.gguf", "m-Q8_0.gguf", "s-00001-of-00002.gguf", "s-00002-of-00002.gguf"):
        (
            GgufWriter().key("general.architecture", "string", "llama").key("llama.block_count", "uint32", 1)
        ).write(tmp_path / name)
    plain = tmp_path / "below" / "plain"
    plain.mkdir(parents=True)
    write_json(plain / "config.json", {"model_type": "llama", "architectures": ["LlamaForCausalLM"],
                                       "num_hidden_layers": 1, "hidden_size": 8})  # fmt: skip
    write_tensors(plain / "model.safetensors", [("model.layers.0.mlp.up_proj.weight", "BF16", [16, 8])])
    return tmp_path


def test_each_checkpoint_is_listed_once(tmp_path: Path) -> None:
    listed = survey(a_folder(tmp_path))
    assert [one.name for one in listed.checkpoints] == [
        "m-Q4_0.gguf", "m-Q8_0.gguf", "s-00001-of-00002.gguf", "below/plain",
    ]  # fmt: skip
    plain = listed.checkpoints[-1]
    assert (plain.architecture, plain.type, plain.bits_per_weight) == ("LlamaForCausalLM", "bfloat16", 16.0)
    assert plain.bytes == (tmp_path / "below/plain/model.safetensors").stat().st_size


def test_one_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    (one,) = survey(tmp_path).checkpoints
    assert one.error is not None
    assert one.bytes is None


@pytest.mark.parametrize(
    ("address", "repo", "revision", "file"),
    [
        ("https://huggingface.co/Qwen/Qwen3-8B", "Qwen/Qwen3-8B", "main", None),
        ("https://huggingface.co/Qwen/Qwen3-8B/tree/main", "Qwen/Qwen3-8B", "main", None),
        ("huggingface.co/Qwen/Qwen3-8B/", "Qwen/Qwen3-8B", "main", None),
        ("hf.co/o/m-GGUF/blob/main/m-Q4_K_M.gguf?download=true", "o/m-GGUF", "main", "m-Q4_K_M.gguf"),
        ("https://huggingface.co/o/m/resolve/v1.0/config.json", "o/m", "v1.0", None),
        ("https://huggingface.co/o/m/discussions/4", "o/m", "main", None),
        ("https://huggingface.co/o/m/tree/main/UD-Q4_K_XL", "o/m", "main", "UD-Q4_K_XL/"),
        ("https://huggingface.co/o/m/tree/refs%2Fpr%2F7", "o/m", "refs/pr/7", None),
        ("https://huggingface.co/o/m/resolve/0f0e/sub/m-Q8_0.gguf", "o/m", "0f0e", "sub/m-Q8_0.gguf"),
    ],
)
def test_an_address_of_the_hub(address: str, repo: str, revision: str, file: str | None) -> None:
    found = parse_hub_id(address)
    assert found is not None
    assert (found.repo, found.revision, found.file) == (repo, revision, file)


@pytest.mark.parametrize("address", ["https://huggingface.co/datasets/o/d", "https://example.org/o/m"])
def test_no_address_of_a_model(address: str) -> None:
    assert parse_hub_id(address) is None
