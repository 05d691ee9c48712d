"""Text over whatever is shown: a tensor in full, a finding with all that it names, a trial."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.visual import VisualType
from textual.widgets import Static


class Modal(ModalScreen[None]):
    """A page that closes on escape; ``text`` is what ``c`` copies."""

    CSS_PATH = "modal.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q", "app.pop_screen", "close"),
        Binding("c", "copy", "copy"),
    ]

    def __init__(self, title: str, body: VisualType, *, text: str) -> None:
        super().__init__()
        self._title, self._body, self._text = title, body, text

    def compose(self) -> ComposeResult:
        """The page in a frame that scrolls."""
        with VerticalScroll(id="sheet") as frame:
            frame.border_title = self._title
            frame.border_subtitle = "c copy   esc close"
            yield Static(self._body, markup=False)

    def action_copy(self) -> None:
        """Copy what the sheet is about."""
        self.app.copy_to_clipboard(self._text)
        self.notify("copied", timeout=2)
