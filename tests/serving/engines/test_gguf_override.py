"""The declared context length of a GGUF file, changed in a copy."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ropewalk.errors import EngineError, UsageError
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.serving.engines.llama_cpp.gguf_override import context_key, patched_copy


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_one_number_differs_and_nothing_is_left(smollm2: Path, temporary: Path) -> None:
    assert context_key(smollm2) == "llama.context_length"
    before = sha256(smollm2)
    with patched_copy(smollm2, context_len=16384) as copy:
        assert copy.name == smollm2.name
        assert open_checkpoint(copy).gguf == {**open_checkpoint(smollm2).gguf, "llama.context_length": 16384}
        ours, theirs = copy.read_bytes(), smollm2.read_bytes()
        assert len(ours) == len(theirs)
        start = next(at for at in range(0, len(ours), 4096) if ours[at : at + 4096] != theirs[at : at + 4096])
        assert ours[start + 4096 :] == theirs[start + 4096 :]
    assert list(temporary.iterdir()) == []
    assert sha256(smollm2) == before


def test_nothing_is_left_after_an_error(smollm2: Path, temporary: Path) -> None:
    with pytest.raises(KeyboardInterrupt), patched_copy(smollm2, context_len=16384):
        raise KeyboardInterrupt
    assert list(temporary.iterdir()) == []


def test_a_length_that_the_file_cannot_hold(smollm2: Path, temporary: Path) -> None:
    with (
        pytest.raises(UsageError, match="4294967296 tokens does not fit the uint32"),
        patched_copy(smollm2, context_len=2**32),
    ):
        pass
    assert list(temporary.iterdir()) == []


def test_no_room_for_a_copy(smollm2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 10**6})())
    with (
        pytest.raises(EngineError, match="no room in") as caught,
        patched_copy(smollm2, context_len=16384),
    ):
        pass
    assert caught.value.code == "disk_full"
    assert caught.value.where["free"] == 10**6


def test_the_other_parts_of_a_split_model_are_linked(smollm2: Path, tmp_path: Path) -> None:
    first = tmp_path / "model-00001-of-00002.gguf"
    first.symlink_to(smollm2)
    second = tmp_path / "model-00002-of-00002.gguf"
    second.write_bytes(b"the rest")
    with patched_copy(first, context_len=16384) as copy:
        assert not copy.is_symlink()
        assert copy.with_name(second.name).read_bytes() == b"the rest"
