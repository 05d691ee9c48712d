"""What the keys of a screen do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ropewalk.tui.screens.base import RecordScreen
from ropewalk.tui.widgets.masthead import PLACES

_EVERYWHERE = (
    ("tab, shift+tab", "the next part of the screen, the one before"),
    ("ctrl+p", "command palette: every command by name"),
    ("ctrl+t", "light or dark"),
    ("?", "this page"),
    ("q", "quit; what was started is stopped after asking"),
)


class HelpSheet(ModalScreen[None]):
    """The words of a screen, its keys, and those that work everywhere."""

    CSS_PATH = "modal.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,question_mark", "app.pop_screen", "close")
    ]

    def __init__(self, screen: RecordScreen) -> None:
        super().__init__()
        self._about = screen

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="sheet") as frame:
            frame.border_title = f"Help: {self._about.PLACE}"
            frame.border_subtitle = "esc close"
            yield Static(Content("\n").join(self._lines()))

    def _lines(self) -> Iterator[Content]:
        if tip := self._about.tip():
            yield Content.styled(f"{tip}\n", "bold")
        yield Content(f"{self._about.HELP}\n")
        for binding in self._about.BINDINGS:
            if isinstance(binding, Binding) and binding.description:
                yield _pair(self.app.get_key_display(binding), binding.description)
        yield Content("")
        yield _pair("  ".join(f"{key} {name}" for key, _, name in PLACES), "")
        for keys, words in _EVERYWHERE:
            yield _pair(keys, words)


def _pair(keys: str, words: str) -> Content:
    return Content.assemble((f"{keys:<16}", "bold $primary"), f" {words}")
