"""The serve screen: checks that tick, a server watched and stopped, and what keeps one from starting."""

from __future__ import annotations

import threading

from tests.tui.conftest import Drive, press, settle, until
from tests.tui.doubles import LOOKS, FakeBackend
from textual.pilot import Pilot
from textual.widgets import Static

from ropewalk.tui.app import RopewalkApp
from ropewalk.tui.screens.modal import AskSheet
from ropewalk.tui.screens.serve import ServeScreen
from ropewalk.tui.serverrun import ServerView
from ropewalk.tui.widgets.log_view import LogView
from ropewalk.tui.widgets.pair_bars import PairBars


def words(pilot: Pilot[None], selector: str) -> str:
    """The text of a part of the screen."""
    return str(pilot.app.screen.query_one(selector, Static).content)


def view(pilot: Pilot[None]) -> ServerView:
    """The server as the screen sees it."""
    screen = pilot.app.screen_stack[0]
    assert isinstance(screen, ServeScreen)
    assert screen._view is not None
    return screen._view


async def serve(pilot: Pilot[None]) -> None:
    """Start and wait until something was seen of it."""
    await pilot.press("s")
    await until(pilot, lambda: len(view(pilot).moments) == LOOKS)


def test_a_server_is_checked_started_watched_and_stopped(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        assert words(pilot, "#state").startswith("s starts vllm: fits, 32,768 tokens x 1 sequence")
        await serve(pilot)
        assert words(pilot, "#state") == "● ready  http://127.0.0.1:8000/v1 after 2.1 s, 131,072 tokens"
        assert words(pilot, "#checks").splitlines()[:2] == [
            "✓ checkpoint  vllm reads safetensors", "✓ flags  vllm 0.33.0 knows every flag of the command",
        ]  # fmt: skip
        assert "? chat_template  none" in words(pilot, "#checks")
        assert "busy · running 1 · waiting 0 · KV ████" in words(pilot, "#load")
        assert words(pilot, "#load").splitlines()[-1].startswith("4 ✓  curl http://127.0.0.1:8000/v1/comp")
        assert "25%, 32,768 tokens · prompt 380 tokens/s · answer 40 tokens/s" in words(pilot, "#load")
        await press(pilot, "y")
        assert pilot.app.clipboard == "http://127.0.0.1:8000/v1"
        await pilot.press("x")
        await until(pilot, lambda: view(pilot).state == "stopped")
        assert words(pilot, "#state") == "○ stopped"

    drive(script, place="serve")
    assert (backend.serving.started, backend.serving.stopped) == (1, 1)


def test_each_term_stands_beside_what_was_printed(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> str:
        await serve(pilot)
        return str(pilot.app.screen.query_one(PairBars).render())

    lines = [line.rstrip("█▉▊▋▌▍▎▏▒ ") for line in drive(script, place="serve").splitlines()]
    assert lines == [
        "weights                15.26 GiB",
        "  = printed            15.26 GiB",
        "KV cache               18.00 GiB",
        "  = printed            18.00 GiB",
        "activations        1.00–3.00 GiB",
        "  ≠ printed             4.00 GiB",  # above the range that was planned
        "CUDA graphs        0.25–1.00 GiB",
    ]


def test_the_log_is_searched_as_one_types(drive: Drive) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await serve(pilot)
        log = pilot.app.screen.query_one(LogView)
        assert [log.render_line(y).text.strip() for y in range(3)] == [
            "INFO loading weights", "ERROR something small", "INFO ready [bold]not markup[/]",
        ]  # fmt: skip
        await press(pilot, "slash", *"info READY")
        assert list(log.found) == ["INFO ready [bold]not markup[/]"]
        assert pilot.app.screen.query_one("#log-panel").border_subtitle == "1 of 3 lines"
        await press(pilot, "enter")
        assert log.has_focus

    drive(script, place="serve")


def test_a_failed_check_keeps_it_from_starting_unless_one_insists(drive: Drive, backend: FakeBackend) -> None:
    backend.serving.failing = "memory"

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("s")
        await until(pilot, lambda: view(pilot).state == "refused")
        assert "✗ memory  up to 36.00 GiB" in words(pilot, "#checks")
        assert backend.serving.started == 0
        await press(pilot, "F")
        assert isinstance(pilot.app.screen, AskSheet)
        await pilot.press("y")
        await until(pilot, lambda: view(pilot).state == "ready")
        await pilot.press("x")
        await until(pilot, lambda: view(pilot).state == "stopped")

    drive(script, place="serve")
    assert backend.serving.started == 1


def test_an_engine_that_fails_says_its_own_last_words(drive: Drive, backend: FakeBackend) -> None:
    backend.serving.dies = "vllm ended with 1 while it started: no kernel image is available"

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("s")
        await until(pilot, lambda: view(pilot).state == "failed")
        assert words(pilot, "#state").endswith("no kernel image is available")
        assert [line for line in view(pilot).lines if "ERROR" in line] == ["ERROR something small"]

    drive(script, place="serve")


def test_what_does_not_fit_is_not_started(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, RopewalkApp)
        app.ask(context_len=262144)
        screen = app.screen
        assert isinstance(screen, ServeScreen)
        screen.action_start()  # of the old plan, which fits, while the new one is made
        assert not app.running
        await settle(pilot)
        await press(pilot, "s")
        assert not app.running
        assert "does not fit" in words(pilot, "#state")

    drive(script, place="serve")
    assert backend.serving.ports == []


def test_the_port_may_be_chosen(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        pilot.app.screen.query_one("#port Input").focus()
        await press(pilot, *"70000", "enter")
        assert pilot.app.screen.query_one("#port").has_class("-wrong")
        await press(pilot, "backspace", "enter")
        pilot.app.screen.query_one(LogView).focus()
        await serve(pilot)

    drive(script, place="serve")
    assert backend.serving.ports == [7000]


def test_quitting_asks_and_then_stops_what_runs(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await serve(pilot)
        await press(pilot, "q")
        assert isinstance(pilot.app.screen, AskSheet)
        await press(pilot, "n")
        assert backend.serving.stopped == 0
        assert view(pilot).state == "ready"
        await press(pilot, "q")
        await pilot.press("y")
        await until(pilot, lambda: not pilot.app.is_running or backend.serving.stopped == 1)

    drive(script, place="serve")
    assert backend.serving.stopped == 1


def test_nothing_is_left_running_however_it_ends(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await serve(pilot)
        pilot.app.exit()

    drive(script, place="serve")
    assert backend.serving.stopped == 1


def test_a_server_that_hangs_while_it_starts_is_interrupted(drive: Drive, backend: FakeBackend) -> None:
    seen: list[str] = []

    async def script(pilot: Pilot[None]) -> None:
        backend.serving.hangs = True
        await pilot.press("s")
        await until(pilot, lambda: view(pilot).state == "starting")
        screen = pilot.app.screen
        assert isinstance(screen, ServeScreen)
        assert screen._run is not None
        tell = screen._run._tell

        def note(view: ServerView) -> None:
            seen.append(view.state)
            tell(view)

        screen._run._tell = note
        await pilot.press("x")
        await until(pilot, lambda: view(pilot).state == "stopped")
        assert words(pilot, "#state") == "○ stopped"

    drive(script, place="serve")
    assert seen == ["stopping", "stopped"]


def test_quitting_says_what_it_waits_for_and_how_long(drive: Drive, backend: FakeBackend) -> None:
    async def script(pilot: Pilot[None]) -> None:
        backend.serving.hangs = True
        await pilot.press("s")
        await until(pilot, lambda: view(pilot).state == "starting")
        told = threading.Event()
        app = pilot.app
        assert isinstance(app, RopewalkApp)
        stop = app.running["the server"]

        def wait() -> None:
            told.wait()
            stop()

        app.running["the server"] = wait
        await pilot.press("q", "y")
        await pilot.pause()
        said = str(pilot.app.screen.query_one("#sheet Static", Static).content)
        assert said == "stopping the server, at most 10 s"
        told.set()
        await until(pilot, lambda: pilot.app._exit)

    drive(script, place="serve")
