"""What all screens share: the frame, the state of the application, and how they keep up with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.screen import Screen

from ropewalk.tui.state import AppState
from ropewalk.tui.widgets.keyline import KeyLine
from ropewalk.tui.widgets.masthead import Masthead

if TYPE_CHECKING:
    from ropewalk.tui.app import RopewalkApp


class RecordScreen(Screen[None]):
    """A screen that draws the state of the application.

    :meth:`show` is called when the screen is entered and whenever the state changes while it is shown;
    a screen that is not shown does nothing until it is entered again.
    """

    PLACE: ClassVar[str] = ""
    HELP = ""

    def compose(self) -> ComposeResult:
        """The frame around :meth:`compose_body`."""
        yield Masthead(self.PLACE)
        yield from self.compose_body()
        yield KeyLine()

    def compose_body(self) -> ComposeResult:
        """The parts of this screen."""
        yield from ()

    def show(self, desk: AppState) -> None:
        """Draw the state."""

    @property
    def ropewalk(self) -> RopewalkApp:
        """The application, by its own type."""
        return cast("RopewalkApp", self.app)

    @property
    def desk(self) -> AppState:
        """The state of the application."""
        return self.ropewalk.desk

    def on_screen_resume(self) -> None:
        """Catch up."""
        self.catch_up()

    def catch_up(self) -> None:
        """Draw the state as it is now, if this screen can be seen; one that is being closed has no parts."""
        if self.app.is_running and self.is_mounted and self.is_current:
            self.query_one(Masthead).show(self.desk)
            self.show(self.desk)
