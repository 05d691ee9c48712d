"""What all screens share: the frame, the state of the application, and how they keep up with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, cast

from textual.app import ComposeResult
from textual.screen import Screen

from ropewalk.errors import RopewalkError
from ropewalk.tui.state import AppState
from ropewalk.tui.widgets.keyline import KeyLine
from ropewalk.tui.widgets.masthead import Masthead
from ropewalk.tui.work import Backend


class Application(Protocol):
    """What screens ask of the application; :class:`ropewalk.tui.app.RopewalkApp` is it."""

    backend: Backend
    desk: AppState
    running: dict[str, Callable[[], None]]
    reading: str | None
    failure: tuple[str, RopewalkError | OSError] | None
    shown_run: str | None

    def ask(self, **changes: Any) -> None:
        """Plan again with these fields of the request changed."""

    def read(self, source: str) -> None:
        """Open another checkpoint."""

    def cancel_reading(self) -> None:
        """Leave what is being read, and ask for another."""

    def show_run(self, run_id: str) -> None:
        """Go to the stored runs and open this one."""

    def copy(self, text: str, what: str) -> None:
        """Put a text into the clipboard and say what it is."""

    def export(self, name: str, text: str) -> None:
        """Write a text to a new file and say where."""


class RecordScreen(Screen[None]):
    """A screen that draws the state of the application.

    :meth:`show` is called when the screen is entered and whenever the state changes while it is shown;
    a screen that is not shown does nothing until it is entered again.
    """

    PLACE: ClassVar[str] = ""
    HELP = ""
    # By id of a part: what its figures are, where they come from, how exact they are.
    TIPS: ClassVar[dict[str, str]] = {}

    def compose(self) -> ComposeResult:
        """The frame around :meth:`compose_body`."""
        yield Masthead(self.PLACE)
        yield from self.compose_body()
        yield KeyLine()

    def compose_body(self) -> ComposeResult:
        """The parts of this screen."""
        yield from ()

    def on_mount(self) -> None:
        """What the parts show, for the mouse; help says it of the part that has the focus."""
        for name, words in self.TIPS.items():
            self.query_one(f"#{name}").tooltip = words

    def tip(self) -> str | None:
        """What the part that has the focus shows."""
        around = self.focused.ancestors_with_self if self.focused is not None else ()
        return next((self.TIPS[part.id] for part in around if part.id in self.TIPS), None)

    def show(self, desk: AppState) -> None:
        """Draw the state."""

    @property
    def ropewalk(self) -> Application:
        """The application, as far as screens need it."""
        return cast(Application, self.app)

    @property
    def desk(self) -> AppState:
        """The state of the application."""
        return self.ropewalk.desk

    def on_screen_resume(self) -> None:
        self.catch_up()

    def catch_up(self) -> None:
        """Draw the state as it is now, if this screen can be seen; one that is being closed has no parts."""
        if self.app.is_running and self.is_mounted and self.is_current:
            self.query_one(Masthead).show(self.desk)
            self.show(self.desk)
