"""Screens over whatever is shown: text in full, a question with yes and no, one of a few options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.visual import VisualType
from textual.widgets import Button, Static

from ropewalk.tui.widgets.record_list import RecordList


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
        self.dismiss(event.button.id == "yes")

    def action_answer(self, agreed: bool) -> None:
        self.dismiss(agreed)


class WaitSheet(ModalScreen[None]):
    """Says what is being waited for; it goes when that is over."""

    CSS_PATH = "ask.tcss"

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words

    def compose(self) -> ComposeResult:
        """The words in a frame."""
        with Vertical(id="sheet"):
            yield Static(self._words, markup=False)


class ChooseSheet(ModalScreen[str | None]):
    """Answers the name that was chosen, None after escape. ``options`` are key, name and words."""

    CSS_PATH = "ask.tcss"

    def __init__(self, question: str, options: Sequence[tuple[str, str, str]]) -> None:
        super().__init__()
        self._question, self._options = question, options

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet") as frame:
            frame.border_title = self._question
            yield RecordList(id="options")

    def on_mount(self) -> None:
        self.query_one(RecordList).show(
            (name, Content.assemble((f"{key}  ", "bold $primary"), words))
            for key, name, words in self._options
        )

    def on_key(self, event: events.Key) -> None:
        """A key of an option chooses it."""
        chosen = next((name for key, name, _ in self._options if key == event.key), None)
        if chosen is not None or event.key == "escape":
            event.stop()
            self.dismiss(chosen)

    def on_record_list_chosen(self, event: RecordList.Chosen) -> None:
        """So do enter and the mouse."""
        self.dismiss(event.record)
