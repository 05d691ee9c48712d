"""Pictures of every screen at two sizes, an error, a plan that does not fit, a run in progress, in light."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.conftest import LARGE, SMALL, Drive, press, settle, until
from tests.tui.doubles import LOOKS, RUN, FakeBackend, measuring
from tests.tui.picture import require_picture
from textual.pilot import Pilot

from ropewalk.tui.app import RopewalkApp
from ropewalk.tui.screens import runs
from ropewalk.tui.screens.measure import MeasureScreen
from ropewalk.tui.screens.serve import ServeScreen
from ropewalk.units import GIB


async def both_sizes(pilot: Pilot[None], name: str) -> None:
    """Compare the screen as it is, and made smaller."""
    require_picture(pilot.app, f"{name}-{LARGE[0]}x{LARGE[1]}")
    await pilot.resize_terminal(*SMALL)
    await settle(pilot)
    require_picture(pilot.app, f"{name}-{SMALL[0]}x{SMALL[1]}")


@pytest.mark.parametrize("place", ["checkpoint", "rope", "plan", "runs"])
def test_a_screen(drive: Drive, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The report has tests of its own.
    monkeypatch.setattr(runs, "measurement_page", lambda run: f"the report of {run.run_id}")

    async def script(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, RopewalkApp)
        app.ask(context_len=131072)
        await settle(pilot)
        await both_sizes(pilot, place)

    drive(script, place=place, source="models/lying" if place == "checkpoint" else "models/Qwen3-8B")


def test_open_after_an_error(
    drive: Drive, tmp_path: Path, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / "Qwen3-8B").mkdir(parents=True)
    (home / "Qwen3-8B" / "config.json").touch()
    (home / "archive").mkdir()

    async def script(pilot: Pilot[None]) -> None:
        pilot.app.screen.query_one("#folder-panel").border_title = "~"
        await both_sizes(pilot, "open-error")

    monkeypatch.chdir(home)
    drive(script, source="models/missing")


def test_a_plan_that_does_not_fit_in_light(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, RopewalkApp)
        app.ask(context_len=262144, memory_bytes=24 * GIB)
        await press(pilot, "ctrl+t")
        await both_sizes(pilot, "plan-does-not-fit-light")

    drive(script, place="plan")


def test_a_server_that_runs(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("s")
        screen = pilot.app.screen
        assert isinstance(screen, ServeScreen)
        await until(pilot, lambda: screen._view is not None and len(screen._view.moments) == LOOKS)
        await both_sizes(pilot, "serve-running")

    drive(script, place="serve")


def test_a_run_in_progress(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("s")
        screen = pilot.app.screen
        assert isinstance(screen, MeasureScreen)
        await until(pilot, lambda: getattr(screen._view, "current", None) == measuring()[-1])
        await press(pilot, "right")
        await both_sizes(pilot, "measure-running")
        backend.stored.last.set()
        await until(pilot, lambda: screen._control is None)

    drive(script, place="measure")


def test_a_run_that_is_done(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, RopewalkApp)
        app.show_run(RUN.run_id)
        await settle(pilot)
        await both_sizes(pilot, "measure-done")

    drive(script, place="runs")
