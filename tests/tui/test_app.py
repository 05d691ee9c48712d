"""What works on every screen: the way around, help, palette, themes, mouse; and the two sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.conftest import SMALL, Drive, press, settle, until
from tests.tui.doubles import FakeBackend
from textual.command import CommandPalette
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Static

from ropewalk.errors import UsageError
from ropewalk.tui.app import RopewalkApp
from ropewalk.tui.crash import write_crash
from ropewalk.tui.screens.base import RecordScreen
from ropewalk.tui.screens.help import HelpSheet
from ropewalk.tui.themes import DARK, LIGHT, THEMES
from ropewalk.tui.widgets.keyline import KeyLine
from ropewalk.tui.widgets.masthead import PLACES, Masthead


def place(pilot: Pilot[None]) -> str:
    """Which screen is shown."""
    screen = pilot.app.screen
    return screen.PLACE if isinstance(screen, RecordScreen) else type(screen).__name__


def test_keys_and_clicks_lead_to_every_screen(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        for key, name, _ in PLACES[1:]:
            await press(pilot, key)
            assert place(pilot) == name
            words = str(pilot.app.screen.query_one(Masthead).query_one("#what", Static).content)
            assert words == "ropewalk  Qwen3-8B  8.19 B · BF16 15.26 GiB · reaches 32,768 / 131,072 · vllm"
        await pilot.click("#tabs", offset=(18, 0))
        await settle(pilot)
        assert place(pilot) == "checkpoint"

    drive(script)


def test_a_key_that_is_faster_than_a_screen_is_for_it(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        for key in ("3", "x"):
            pilot.app.post_message(Key(key, key))
        await until(pilot, lambda: pilot.app.focused is not None and place(pilot) == "plan")
        await settle(pilot)
        assert pilot.app.focused is pilot.app.screen.query_one("#context Input")

    drive(script)


def test_where_there_is_room_the_head_is_one_line(drive: Drive) -> None:
    async def height(pilot: Pilot[None]) -> int:
        head = pilot.app.screen.query_one(Masthead)
        assert head.query_one("#tabs").region.right <= pilot.app.size.width
        return head.size.height

    assert drive(height, size=(200, 60)) == 1
    assert drive(height, size=SMALL) == 2


def test_the_last_line_names_the_keys_that_work_here(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        line = str(pilot.app.screen.query_one(KeyLine).render())
        assert line == ("⏎ open  / filter  s sort  f facts  w heads  c copy  e export  ? help  q quit")
        assert len(line) <= SMALL[0] - 2
        await press(pilot, "slash")
        assert "sort" not in str(pilot.app.screen.query_one(KeyLine).render())

    drive(script, size=SMALL)


def test_help_lists_the_keys_and_closes_by_any_way_out(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        for way_out in ("escape", "q", "question_mark"):
            await press(pilot, "question_mark")
            assert place(pilot) == "HelpSheet"
            await press(pilot, "3")  # no way through a sheet
            assert isinstance(pilot.app.screen, HelpSheet)
            await press(pilot, way_out)
            assert place(pilot) == "checkpoint"
        await press(pilot, "question_mark")
        words = str(pilot.app.screen.query_one("#sheet Static", Static).content)
        assert "w                heads" in words
        assert "quit; what was started is stopped after asking" in words

    drive(script, size=SMALL)


def test_the_palette_knows_screens_and_keys(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, RopewalkApp)
        titles = [command.title for command in app.get_system_commands(app.screen)]
        assert titles[:7] == [name for _, _, name in PLACES]
        assert {"Filter", "Sort", "Heads", "Export", "Light or dark", "Quit"} <= set(titles)
        await press(pilot, "ctrl+p")
        assert isinstance(app.screen, CommandPalette)

    drive(script)


def test_light_and_dark(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        assert pilot.app.theme == DARK.name
        await press(pilot, "ctrl+t")
        assert pilot.app.theme == LIGHT.name
        assert pilot.app.screen.styles.background.hex.lower() == LIGHT.background
        await press(pilot, "ctrl+t")
        assert pilot.app.theme == DARK.name

    drive(script)


def test_quitting_with_nothing_running_asks_nothing(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("q")
        await pilot.pause()
        assert not pilot.app.is_running or pilot.app._exit

    drive(script)


def test_a_mistake_of_the_user_ends_nothing(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> str:
        def refuse(*arguments: object) -> None:
            raise UsageError("two sequences are [too] many")

        backend.reach = refuse  # type: ignore[method-assign,assignment]
        await press(pilot, "3")
        await press(pilot, "right")
        return "".join(toast.message for toast in pilot.app._notifications)

    assert "two sequences are [too] many" in drive(script)


def test_a_bug_ends_the_application_and_is_kept(drive: Drive, backend: FakeBackend, tmp_path: Path) -> None:
    apps: list[RopewalkApp] = []

    async def script(pilot: Pilot[None]) -> None:
        def fail(*arguments: object) -> None:
            raise ZeroDivisionError("by zero")

        assert isinstance(pilot.app, RopewalkApp)
        apps.append(pilot.app)
        backend.reach = fail  # type: ignore[method-assign,assignment]
        await press(pilot, "3")

    with pytest.raises(ZeroDivisionError):
        drive(script)
    (app,) = apps
    assert isinstance(app.crash, ZeroDivisionError)
    assert app.return_code == 1
    assert app._exit_renderables == []  # Textual would print every variable
    log = write_crash(app.crash, tmp_path / "logs").read_text()
    assert log.startswith("Traceback")
    assert log.endswith("ZeroDivisionError: by zero\n")


def luminance(color: str) -> float:
    """Relative luminance of ``#rrggbb`` (WCAG 2.2)."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_colour_can_be_read_on_its_background() -> None:
    for theme in THEMES.values():
        assert theme.background is not None
        ground = luminance(theme.background)
        for name in ("blue", "orange", "green", "purple", "yellow", "red", "grey"):
            colour = luminance(theme.variables[name])
            contrast = (max(colour, ground) + 0.05) / (min(colour, ground) + 0.05)
            assert contrast >= 4.5, f"{name} of {theme.name}: {contrast:.2f}"
