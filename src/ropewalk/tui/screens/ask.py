"""A question with yes and no, over whatever is shown."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Static


class AskSheet(ModalScreen[bool]):
    """Answers True or False; ``escape`` is no."""

    CSS_PATH = "ask.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape", "answer(False)", "no"),
        Binding("left,right", "app.focus_next", "", show=False),
    ]

    def __init__(self, question: str, *, yes: str = "yes", no: str = "no") -> None:
        super().__init__()
        self._question, self._yes, self._no = question, yes, no

    def compose(self) -> ComposeResult:
        """The question and two buttons."""
        with Vertical(id="sheet"):
            yield Static(self._question, markup=False)
            with Horizontal():
                yield Button(f"y {self._yes}", id="yes", variant="error", compact=True)
                yield Button(f"n {self._no}", id="no", compact=True)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """The mouse answers too."""
        self.dismiss(event.button.id == "yes")

    def action_answer(self, agreed: bool) -> None:
        """A key answers."""
        self.dismiss(agreed)
