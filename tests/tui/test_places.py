"""Where checkpoints are found: recent ones, folders, completion, the Hub's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from ropewalk.tui import places


def test_the_latest_comes_first_and_none_twice(tmp_path: Path) -> None:
    kept = tmp_path / "state" / "recent.json"
    for source in ("a", "b", "a"):
        places.remember(kept, source)
    assert places.recent(kept) == ("a", "b")
    for number in range(20):
        places.remember(kept, str(number))
    assert len(places.recent(kept)) == 12


@pytest.mark.parametrize("text", ["", "not json", '{"a": 1}', "[1, null]", "\xff"])
def test_a_damaged_list_is_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "recent.json").write_text(text, encoding="latin-1")
    assert places.recent(tmp_path / "recent.json") == ()


def test_a_list_that_cannot_be_kept_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    places.remember(tmp_path / "file" / "recent.json", "a")


def test_completion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models" / "qwen").mkdir(parents=True)
    (tmp_path / "model.gguf").touch()
    (tmp_path / ".secret").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    known = ("Qwen/Qwen3-8B",)
    assert places.completion("", known=known) is None
    assert places.completion("Qw", known=known) == "Qwen/Qwen3-8B"
    assert places.completion("model", known=known) == "model.gguf"
    assert places.completion("models", known=known) == "models/"
    assert places.completion("models/", known=known) == "models/qwen/"
    assert places.completion("~/model.", known=known) == "~/model.gguf"
    assert places.completion(f"{tmp_path}/mod", known=()) == f"{tmp_path}/model.gguf"
    assert places.completion(".s", known=known) == ".secret"
    assert places.completion("nowhere/x", known=known) is None
    assert places.completion("a\0b", known=known) is None


def test_folders_that_are_checkpoints_are_told_from_others(tmp_path: Path) -> None:
    for name in ("plain", "Model", "Sharded"):
        (tmp_path / name).mkdir()
    (tmp_path / "Model" / "config.json").touch()
    (tmp_path / "Sharded" / "model.safetensors.index.json").touch()
    (tmp_path / "weights.gguf").write_bytes(b"1234")
    (tmp_path / "readme.md").touch()
    found = [(place.name, place.kind, place.bytes) for place in places.folder_entries(tmp_path)]
    assert found == [
        ("..", "folder", None),
        ("Model", "checkpoint", None),
        ("Sharded", "checkpoint", None),
        ("weights.gguf", "checkpoint", 4),
        ("plain", "folder", None),
    ]
    with pytest.raises(OSError, match="nowhere"):
        places.folder_entries(tmp_path / "nowhere")


def test_the_cache_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "none"))
    assert places.cached_repositories() == ()
    snapshot = tmp_path / "hub" / "models--Org--Small" / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_bytes(bytes(300))
    refs = tmp_path / "hub" / "models--Org--Small" / "refs"
    refs.mkdir()
    (refs / "main").write_text("a" * 40)
    (tmp_path / "hub" / "datasets--Org--Data").mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    assert [(place.source, place.bytes) for place in places.cached_repositories()] == [("Org/Small", 300)]
