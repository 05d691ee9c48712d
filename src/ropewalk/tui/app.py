"""The application: which screens there are, what they share, how it is left."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from textual import work
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.worker import WorkerFailed, get_current_worker

from ropewalk.errors import RopewalkError
from ropewalk.planner.records import PlanRequest
from ropewalk.serving.records import GRACE_SECONDS
from ropewalk.tui.screens.base import RecordScreen
from ropewalk.tui.state import AppState, Opened
from ropewalk.tui.themes import DARK, LIGHT, THEMES
from ropewalk.tui.widgets.masthead import PLACES
from ropewalk.tui.work import Backend


def _screen(place: str) -> Screen[None]:
    """Make the screen of a place; its module is imported now, which keeps the start short."""
    made: Screen[None] = import_module(f"ropewalk.tui.screens.{place}").SCREEN()
    return made


class RopewalkApp(App[None]):
    """Inspect, plan, serve and measure, screen by screen, over one opened checkpoint."""

    TITLE = "ropewalk"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        place: partial(_screen, place) for _, place, _ in PLACES
    }
    DEFAULT_MODE = "checkpoint"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide"), (160, "-huge")]  # noqa: RUF012  as App declares it
    VERTICAL_BREAKPOINTS = [(0, "-low"), (34, "-high")]  # noqa: RUF012
    ENABLE_SELECT_AUTO_SCROLL = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"go('{place}')", name, show=False) for key, place, name in PLACES),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("ctrl+t", "toggle_theme", "light or dark", show=False),
        Binding("q", "quit", "quit"),
        Binding("ctrl+q", "quit", "quit", show=False, priority=True),
    ]

    def __init__(
        self, source: str | None = None, *, backend: Backend | None = None, light: bool = False
    ) -> None:
        super().__init__()
        self.backend = backend or Backend()
        self.desk = AppState()
        self.reading: str | None = source
        self.failure: tuple[str, RopewalkError | OSError] | None = None
        self.crash: Exception | None = None
        self.running: dict[str, Callable[[], None]] = {}
        self.shown_run: str | None = None
        for theme in THEMES.values():
            self.register_theme(theme)
        self.theme = LIGHT.name if light else DARK.name

    def on_mount(self) -> None:
        """Read what the command line named, else ask."""
        self._hear_signals()
        if self.reading is None:
            self.switch_mode("open")
        else:
            self.read(self.reading)

    def set_desk(self, desk: AppState) -> None:
        """Take a new state; the screen that is shown draws it."""
        self.desk = desk
        for screen in self.screen_stack:
            if isinstance(screen, RecordScreen):
                screen.catch_up()

    def read(self, source: str) -> None:
        """Open a checkpoint in a worker; the checkpoint screen shows that, and then it."""
        self.reading, self.failure = source, None
        self.switch_mode("checkpoint")
        self.set_desk(replace(self.desk, opened=None, request=None, plan=None))
        self._read(source)

    @work(thread=True, exclusive=True, group="read")
    def _read(self, source: str) -> None:
        worker = get_current_worker()
        try:
            opened = self.backend.open(source)
            devices = self.desk.devices or self.backend.devices()
        except (RopewalkError, OSError) as error:
            if not worker.is_cancelled:
                self.call_from_thread(self._failed, source, error)
            return
        request = self.backend.first_request(opened, devices)
        desk = AppState(opened=opened, request=request, devices=devices)
        if not worker.is_cancelled:
            self.call_from_thread(self._opened, desk)

    def cancel_reading(self) -> None:
        """Leave what is being read; a header that is under way is read in vain."""
        self.workers.cancel_group(self, "read")
        self.reading = None
        self.switch_mode("open")

    def _opened(self, desk: AppState) -> None:
        self.reading = None
        self.set_desk(desk)
        self.ask()

    def ask(self, **changes: Any) -> None:
        """Take other wishes, and have them planned; the last plan is shown until then."""
        opened, request = self.desk.opened, self.desk.request
        if opened is not None and request is not None:
            request = replace(request, **changes)
            self.set_desk(replace(self.desk, request=request))
            self._plan(self.desk, opened, request)

    @work(thread=True, exclusive=True, group="plan")
    def _plan(self, desk: AppState, opened: Opened, request: PlanRequest) -> None:
        try:
            plan, problem = self.backend.plan(opened, request), None
        except RopewalkError as error:
            plan, problem = None, error
        if not get_current_worker().is_cancelled:
            self.call_from_thread(self._planned, replace(desk, plan=plan, planned=request, problem=problem))

    def _planned(self, desk: AppState) -> None:
        """Show the plan, if it is still what is asked for."""
        if desk.request == self.desk.request and desk.opened is self.desk.opened:
            self.set_desk(desk)

    def _failed(self, source: str, error: RopewalkError | OSError) -> None:
        self.reading, self.failure = None, (source, error)
        self.switch_mode("open")
        self.set_desk(self.desk)

    async def action_go(self, place: str) -> None:
        """Show the screen of a place, unless a sheet is open over this one; keys typed on are for it."""
        if isinstance(self.screen, RecordScreen):
            await self.switch_mode(place)

    def show_run(self, run_id: str) -> None:
        """Open a stored run on the measure screen."""
        self.shown_run = run_id
        self.switch_mode("measure")

    def action_toggle_theme(self) -> None:
        self.theme = LIGHT.name if self.theme != LIGHT.name else DARK.name

    def action_help(self) -> None:
        """What the keys of this screen do."""
        from ropewalk.tui.screens.help import HelpSheet

        if isinstance(self.screen, RecordScreen):
            self.push_screen(HelpSheet(self.screen))

    def _hear_signals(self) -> None:
        """Told to end by another process, what was started is stopped first."""
        if not self.is_headless:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stop_and_exit)

    async def action_quit(self) -> None:
        """Leave; what was started is stopped first, if the person agrees."""
        if not self.running:
            self.exit()
            return
        from ropewalk.tui.screens.modal import AskSheet

        words = " and ".join(self.running)
        self.push_screen(AskSheet(f"Stop {words} and quit?", yes="stop and quit"), self._quit_if)

    def _quit_if(self, agreed: bool | None) -> None:
        if agreed:
            self.stop_and_exit()

    def stop_and_exit(self) -> None:
        """Stop what was started, which is said while it lasts, and leave."""
        from ropewalk.tui.screens.modal import WaitSheet

        if self.running:
            words = " and ".join(self.running)
            self.push_screen(WaitSheet(f"stopping {words}, at most {GRACE_SECONDS:.0f} s"))
        self._stop_all()

    def on_unmount(self) -> None:
        """Leave nothing running, however the application ends."""
        self._stop_each()

    @work(thread=True, exclusive=True, group="quit")
    def _stop_all(self) -> None:
        self._stop_each()
        self.call_from_thread(self.exit)

    def _stop_each(self) -> None:
        """All at once: each has its own limit."""
        threads = [threading.Thread(target=stop) for stop in list(self.running.values())]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _handle_exception(self, error: Exception) -> None:
        """A mistake of the user, or what a file or an engine got wrong, is told and ends nothing; a bug ends
        the application, and whoever ran it finds it in ``crash``. Textual would print every variable."""
        cause = error.error if isinstance(error, WorkerFailed) else error
        if isinstance(cause, RopewalkError):
            self.notify(cause.message, severity="error", markup=False)
            return
        self.crash = self.crash or (cause if isinstance(cause, Exception) else error)
        super()._handle_exception(self.crash)
        self._exit_renderables.clear()

    def copy(self, text: str, what: str) -> None:
        """Put text on the clipboard of the terminal and say so."""
        self.copy_to_clipboard(text)
        self.notify(f"copied {what}", timeout=2)

    def export(self, name: str, text: str) -> None:
        """Write a file into the current folder, never over another one, and say where it is."""
        from ropewalk.tui.export import write_new

        try:
            path = write_new(Path.cwd(), name, text)
        except OSError as error:
            self.notify(f"{name} cannot be written: {error.strerror or error}", severity="error")
        else:
            self.notify(f"wrote {path}", timeout=4)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: every screen, every key of the one shown, themes."""
        for _, place, name in PLACES:
            yield SystemCommand(name, f"Go to the {name.lower()} screen", partial(self.action_go, place))
        for active in screen.active_bindings.values():
            if active.binding.show and active.node is screen:
                yield SystemCommand(
                    active.binding.description.capitalize(),
                    f"{self.get_key_display(active.binding)} on this screen",
                    partial(self.run_action, active.binding.action, screen),
                )
        yield SystemCommand("Light or dark", "Change the theme", self.action_toggle_theme)
        yield SystemCommand("Help", "What the keys do", self.action_help)
        yield SystemCommand("Quit", "Leave, after stopping what was started", self.action_quit)
