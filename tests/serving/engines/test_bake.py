"""A rope scaling in the header of a copy: what is written, what stays, what is refused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from pathlib import Path

import pytest

from ropewalk import core
from ropewalk.errors import EngineError, UsageError
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.readers.ggufset import read_gguf_file


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def data_of(path: Path) -> bytes:
    layout = read_gguf_file(path).layout
    return path.read_bytes()[-(-layout.tensors_end // layout.alignment) * layout.alignment :]


def test_the_scaling_is_in_the_header_and_the_tensors_are_the_same(smollm2: Path, tmp_path: Path) -> None:
    before, output = sha256(smollm2), tmp_path / "baked.gguf"
    heard: list[tuple[int, int]] = []
    baked = core.bake(
        smollm2, output, context_len=12_288, on_progress=lambda done, total: heard.append((done, total))
    )
    written = {
        "llama.context_length": 12_288,
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 1.5,
        "llama.rope.scaling.original_context_length": 8192,
    }
    assert baked.keys == written
    assert baked.context_len == 12_288
    original, copy = open_checkpoint(smollm2), open_checkpoint(output)
    assert copy.gguf == {**original.gguf, **written}
    for column in fields(type(read_gguf_file(output).columns)):
        assert getattr(read_gguf_file(output).columns, column.name) == getattr(
            read_gguf_file(smollm2).columns, column.name
        )
    assert data_of(output) == data_of(smollm2)
    assert heard[-1][0] == heard[-1][1] == len(data_of(smollm2))
    assert sha256(smollm2) == before
    assert [path.name for path in tmp_path.iterdir()] == ["baked.gguf"]


def test_a_baked_file_needs_no_flags(smollm2: Path, tmp_path: Path) -> None:
    output = tmp_path / "baked.gguf"
    core.bake(smollm2, output, context_len=16_384)
    inspection = core.inspect(output)
    assert not inspection.findings
    assert inspection.value("rope_parameters")["factor"] == 2.0
    plan = core.plan(inspection, context_len=16_384, engine="llama-server", allow_unvalidated=True)
    assert (plan.rope.decision, plan.rope.llama_server_flags) == ("builtin", ())
    flags = core.plan(smollm2, context_len=16_384, engine="llama-server")
    assert plan.rope.attention_factor == flags.rope.attention_factor
    scaled = [pair.scaled_rate for pair in core.rope(smollm2, context_len=16_384).pairs]
    assert [pair.scaled_rate for pair in core.rope(output, context_len=8192).pairs] == scaled


@pytest.mark.parametrize(
    ("context_len", "arm", "message"),
    [
        (4096, "auto", "nothing to bake for 4,096 tokens: trained for 8,192 tokens"),
        (16_384, "unscaled", "no scaling is added"),
        (16_384, "yarn:1.5", "reaches 12,288 tokens, 16,384 are asked for"),
        (16_384, "shipped", "as shipped at most 8,192 tokens"),
    ],
)
def test_nothing_to_bake(smollm2: Path, tmp_path: Path, context_len: int, arm: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        core.bake(smollm2, tmp_path / "baked.gguf", context_len=context_len, arm=arm)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_kept(smollm2: Path, tmp_path: Path) -> None:
    output = tmp_path / "baked.gguf"
    output.write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        core.bake(smollm2, output, context_len=12_288)
    with pytest.raises(UsageError, match="is there already"):
        core.bake(smollm2, smollm2, context_len=12_288)
    assert output.read_text() == "mine"


def test_a_baked_file_is_not_baked_again(smollm2: Path, tmp_path: Path) -> None:
    first = tmp_path / "first.gguf"
    core.bake(smollm2, first, context_len=12_288)
    with pytest.raises(UsageError, match=r"no second scaling|part of this checkpoint"):
        core.bake(first, tmp_path / "second.gguf", context_len=16_384)


def test_only_whole_gguf_files(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "llama", "max_position_embeddings": 8192}))
    with pytest.raises(UsageError, match="only a GGUF file"):
        core.bake(config, tmp_path / "baked.gguf", context_len=12_288)


def test_no_room(smollm2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 10**6})())
    with pytest.raises(EngineError, match="no room in") as caught:
        core.bake(smollm2, tmp_path / "baked.gguf", context_len=12_288)
    assert caught.value.code == "disk_full"
