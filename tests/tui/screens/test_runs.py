"""The runs screen: find, look, compare, export, delete."""

from __future__ import annotations

import json
from pathlib import Path

from tests.tui.conftest import Drive, press
from tests.tui.doubles import OTHER_RUN, RUN, FakeBackend
from textual.pilot import Pilot
from textual.widgets import Static

from ropewalk.errors import RunStoreError
from ropewalk.tui.described import Described
from ropewalk.tui.screens.measure import MeasureScreen
from ropewalk.tui.screens.modal import Modal
from ropewalk.tui.widgets.record_list import RecordList


def listed(pilot: Pilot[None]) -> list[str]:
    """The ids of the runs that are listed."""
    return [run.run_id for run in pilot.app.screen.query_one("#runs", RecordList).records]


def test_runs_are_listed_filtered_and_looked_at(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        runs = pilot.app.screen.query_one("#runs", RecordList)
        assert str(runs.get_option_at_index(1).prompt).split() == [
            "‖", OTHER_RUN.run_id, "2026-11-29", "12,288", "45", "SmolLM2-135M-Instruct.Q4_1.gguf",
            "shipped,", "yarn:1.5,", "unscaled",
        ]  # fmt: skip
        assert pilot.app.screen.query_one("#run-panel").border_title == RUN.run_id
        await press(pilot, "down")
        assert pilot.app.screen.query_one("#run-panel").border_title == OTHER_RUN.run_id
        await press(pilot, "slash", *"finished yarn")
        assert listed(pilot) == [RUN.run_id]
        await press(pilot, *"x")
        assert listed(pilot) == []
        assert str(pilot.app.screen.query_one("#run", Static).content) == "no run matches"
        await press(pilot, "enter")
        assert runs.has_focus

    drive(script, place="runs")


def test_two_runs_stand_side_by_side(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> str:
        await press(pilot, "c")
        assert not isinstance(pilot.app.screen, Modal)  # one is not two
        await press(pilot, "space", "down", "c")
        assert isinstance(pilot.app.screen, Modal)
        page = pilot.app.screen.query_one("#sheet Static", Static).content
        assert isinstance(page, Described)
        return page.content(100).plain

    lines = drive(script, place="runs").splitlines()
    assert lines[0].split()[2:3] == [RUN.run_id]
    assert lines[0].endswith("finished")
    assert lines[1].endswith("interrupted")
    assert any(line.split()[:3] == ["1", "YaRN", "1.5"] for line in lines)
    assert any("KV cache" in line and "270.00" in line for line in lines)


def test_a_run_leaves_as_a_file_of_any_kind(drive: Drive, tmp_path: Path) -> None:
    async def script(pilot: Pilot[None]) -> None:
        for key in "hmcj":
            await press(pilot, "e")
            await press(pilot, key)

    drive(script, place="runs")
    assert (tmp_path / f"{RUN.run_id}.html").read_text().startswith("<!DOCTYPE html>")
    assert json.loads((tmp_path / f"{RUN.run_id}.json").read_text())["run_id"] == RUN.run_id
    assert len((tmp_path / f"{RUN.run_id}.csv").read_text().splitlines()) == 1 + 45
    assert (tmp_path / f"{RUN.run_id}.md").is_file()


def test_deleting_asks_first(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await press(pilot, "d")
        await press(pilot, "escape")
        assert listed(pilot) == [RUN.run_id, OTHER_RUN.run_id]
        await press(pilot, "d")
        await press(pilot, "y")
        assert listed(pilot) == [OTHER_RUN.run_id]

    drive(script, place="runs")
    assert list(backend.stored.kept) == [OTHER_RUN.run_id]


def test_a_run_opens_on_the_measure_screen(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await press(pilot, "down", "enter")
        assert isinstance(pilot.app.screen, MeasureScreen)
        assert "interrupted" in str(pilot.app.screen.query_one("#headline", Static).content)

    drive(script, place="runs")


def test_a_store_that_cannot_be_used_is_said(drive: Drive, backend: FakeBackend) -> None:
    def refuse() -> tuple[()]:
        raise RunStoreError("the run store runs.sqlite3 cannot be used: database is locked")

    backend.stored.runs = refuse  # type: ignore[method-assign]

    async def script(pilot: Pilot[None]) -> None:
        assert [toast.message for toast in pilot.app._notifications] == [
            "the run store runs.sqlite3 cannot be used: database is locked"
        ]

    drive(script, place="runs")
