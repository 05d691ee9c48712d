"""The open screen: what there is to open, what is typed, and why something cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.conftest import SMALL, Drive, press, settle
from tests.tui.doubles import FakeBackend
from textual.pilot import Pilot
from textual.widgets import Input, Static

from ropewalk.tui import places
from ropewalk.tui.app import RopewalkApp
from ropewalk.tui.screens.checkpoint import CheckpointScreen
from ropewalk.tui.screens.open import OpenScreen
from ropewalk.tui.widgets.record_list import RecordList


def names(pilot: Pilot[None], selector: str) -> list[str]:
    """What a list shows, by name."""
    return [place.name for place in pilot.app.screen.query_one(selector, RecordList).records]


@pytest.fixture
def folder(tmp_path: Path, backend: FakeBackend) -> Path:
    """The current folder: a checkpoint, a file of one, a folder of others, and things that are none."""
    (tmp_path / "Qwen3-8B").mkdir()
    (tmp_path / "Qwen3-8B" / "config.json").touch()
    (tmp_path / "deeper" / "inside").mkdir(parents=True)
    (tmp_path / "model.gguf").write_bytes(bytes(2048))
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".hidden").mkdir()
    return tmp_path


def test_folders_are_walked_and_checkpoints_opened(drive: Drive, folder: Path) -> None:
    async def script(pilot: Pilot[None]) -> None:
        assert names(pilot, "#entries") == ["..", "model.gguf", "Qwen3-8B", "deeper"]
        entries = pilot.app.screen.query_one("#entries", RecordList)
        assert "2.00 KiB" in str(entries.get_option_at_index(1).prompt)
        entries.focus()
        await press(pilot, "end", "enter")
        assert names(pilot, "#entries") == ["..", "inside"]
        await press(pilot, "backspace")
        assert names(pilot, "#entries")[-1] == "deeper"
        entries.highlighted = 2
        await press(pilot, "right")  # into a checkpoint's folder, instead of opening it
        assert names(pilot, "#entries") == [".."]
        await press(pilot, "backspace")
        entries.highlighted = 2
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, CheckpointScreen)
        assert pilot.app.desk.opened.source == str(folder / "Qwen3-8B")  # type: ignore[attr-defined]

    drive(script, source=None)


def test_the_cache_of_the_hub_has_sizes(drive: Drive, folder: Path) -> None:
    async def script(pilot: Pilot[None]) -> None:
        cached = pilot.app.screen.query_one("#cached", RecordList)
        assert str(cached.get_option_at_index(0).prompt) == "◆ Qwen/Qwen3-8B  16.00 GiB"
        assert pilot.app.screen.query_one("#cached-panel").border_subtitle == "16.26 GiB in 2"

    drive(script, source=None, size=SMALL)


def test_what_is_typed_is_completed_and_opened(drive: Drive, folder: Path) -> None:
    async def script(pilot: Pilot[None]) -> None:
        field = pilot.app.screen.query_one("#source", Input)
        await press(pilot, *"mod")
        await settle(pilot)
        await press(pilot, "tab")
        assert field.value == "model.gguf"
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, CheckpointScreen)

    drive(script, source=None)


def test_a_file_that_cannot_be_read_shows_why(drive: Drive, folder: Path) -> None:
    async def script(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app.screen, OpenScreen)
        said = str(pilot.app.screen.query_one("#failure", Static).content)
        assert said.startswith("✗ checkpoint_missing  models/missing: no such file or folder")
        assert said.endswith("file  models/missing")
        field = pilot.app.screen.query_one("#source", Input)
        assert field.value == "models/missing"
        field.value = ""
        await press(pilot, *"other", "enter")
        await press(pilot, "o")
        assert not pilot.app.screen.query_one("#failure").display

    drive(script, source="models/missing")


def test_the_last_ones_come_first(drive: Drive, folder: Path) -> None:
    places.remember(folder / "recent.json", "Qwen/Qwen3-8B")
    places.remember(folder / "recent.json", "old/model")

    async def script(pilot: Pilot[None]) -> None:
        assert names(pilot, "#recent") == ["old/model", "Qwen/Qwen3-8B"]
        pilot.app.screen.query_one("#recent").focus()
        await press(pilot, "home", "enter")
        app = pilot.app
        assert isinstance(app, RopewalkApp)
        assert app.desk.opened is not None
        assert app.desk.opened.source == "old/model"

    drive(script, source=None)
