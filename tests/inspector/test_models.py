"""What a folder or a repository has to choose from, and how little of it is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.inspector.readers.files import GgufWriter
from tests.inspector.readers.hub_server import Hub, serve

from ropewalk.errors import CheckpointError, CheckpointMissingError, HubError
from ropewalk.inspector.models import open_models

WORDS = [f"word {number}" for number in range(40_000)]
TYPES = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "F16", "BF16")


def gguf(path: Path, dtype: str, words: list[str]) -> Path:
    """A header of 700 KB, nearly all of it vocabulary, and data that is a hole."""
    writer = GgufWriter()
    writer.key("general.architecture", "string", "llama")
    writer.key("general.name", "string", dtype)
    writer.array("tokenizer.ggml.tokens", "string", words)
    writer.key("llama.block_count", "uint32", 1)
    writer.tensor("token_embd.weight", dtype, (4096, 4096))
    writer.tensor("output_norm.weight", "F32", (4096,))
    return writer.write(path)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A repository of forty quantisations, of which the last has another vocabulary."""
    folder = tmp_path / "published"
    folder.mkdir()
    for number in range(40):
        words = WORDS if number < 39 else [*WORDS[:-1], "and another of another length"]
        gguf(folder / f"model-{number:02}.gguf", TYPES[number % len(TYPES)], words)
    (folder / "mmproj-model.gguf").write_bytes(b"GGUF")
    with serve(Hub({"org/model": folder})) as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.address)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        yield server


def test_forty_files_of_a_repository_in_few_requests(hub: Hub) -> None:
    told: list[tuple[int, int]] = []
    found = open_models("org/model", on_progress=lambda done, total: told.append((done, total)))
    assert [one.source for one in found] == [f"org/model:model-{number:02}.gguf" for number in range(40)]
    for number, one in enumerate(found):
        assert one.checkpoint is not None
        assert one.checkpoint.source == one.source
        assert one.checkpoint.gguf["general.name"] == TYPES[number % len(TYPES)]
        assert one.checkpoint.tensors.names == ["token_embd.weight", "output_norm.weight"]
        assert one.checkpoint.findings == ()
    assert told[-1] == (40, 40)
    listings = [request for request in hub.requests if request.path.startswith("/api/")]
    assert len(listings) == 1
    assert len(hub.requests) < 40 * 3
    assert hub.sent < 30 * 700_000  # of 40 headers of 700 KB


def test_what_was_learnt_of_one_file_changes_nothing_of_another(tmp_path: Path) -> None:
    """Vocabularies of the same count and beginning whose lengths differ are read, not assumed."""
    gguf(tmp_path / "a.gguf", "F16", WORDS)
    gguf(tmp_path / "b.gguf", "Q8_0", [*WORDS[:-1], "another"])
    together = open_models(str(tmp_path))
    alone = [open_models(str(tmp_path / name))[0] for name in ("a.gguf", "b.gguf")]
    for one, other in zip(together, alone, strict=True):
        assert one.checkpoint is not None
        assert other.checkpoint is not None
        assert one.checkpoint.gguf == other.checkpoint.gguf
        assert list(one.checkpoint.tensors.names) == list(other.checkpoint.tensors.names)
        assert one.checkpoint.findings == other.checkpoint.findings == ()


def test_both_formats_of_a_folder_are_candidates(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "num_hidden_layers": 1}))
    gguf(tmp_path / "a.gguf", "F16", WORDS[:9])
    found = open_models(str(tmp_path))
    assert [(Path(one.source).name, one.checkpoint and one.checkpoint.format) for one in found] == [
        (tmp_path.name, "gguf"),
        ("a.gguf", "gguf"),
    ]


def test_a_file_that_cannot_be_read_leaves_the_others(tmp_path: Path) -> None:
    gguf(tmp_path / "a.gguf", "F16", WORDS[:9])
    (tmp_path / "b.gguf").write_bytes(b"GGUF")
    good, bad = open_models(str(tmp_path))
    assert good.checkpoint is not None
    assert bad.error is not None
    (tmp_path / "a.gguf").write_bytes(b"")
    with pytest.raises(CheckpointError):
        open_models(str(tmp_path))


def test_nothing_to_choose_from(tmp_path: Path, hub: Hub) -> None:
    with pytest.raises(CheckpointMissingError):
        open_models(str(tmp_path / "cache"))
    with pytest.raises(CheckpointMissingError, match="has no model org/other"):
        open_models("org/other")
    hub.refusals["model-00.gguf"] = (403, "GatedRepo")
    with pytest.raises(HubError) as raised:
        open_models("org/model")
    assert raised.value.code == "hub_gated"
