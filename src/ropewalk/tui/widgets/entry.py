"""A value that is typed on one line: ``memory 48GiB``. What is no such value is said, and not taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import HorizontalGroup
from textual.message import Message
from textual.widgets import Input, Label

from ropewalk.errors import UsageError
from ropewalk.tui.themes import stylesheet


class Entry(HorizontalGroup):
    """A label and an input; ``read`` turns text into a value or raises :class:`UsageError`."""

    DEFAULT_CSS = stylesheet(__file__)
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave", show=False)]

    @dataclass
    class Changed(Message):
        """Another value was typed and confirmed."""

        entry: Entry
        value: Any

        @property
        def control(self) -> Entry:
            return self.entry

    def __init__(
        self, label: str, read: Callable[[str], Any], *, id: str, width: int = 10, placeholder: str = ""
    ) -> None:
        super().__init__(id=id)
        self._label, self._read, self._width, self._placeholder = label, read, width, placeholder
        self._text = ""

    def compose(self) -> ComposeResult:
        """The label and the input."""
        yield Label(self._label)
        field = Input(compact=True, placeholder=self._placeholder, select_on_focus=True)
        field.styles.width = self._width
        yield field

    def show(self, text: str) -> None:
        """Draw a value that came from elsewhere, unless somebody is typing."""
        field = self.query_one(Input)
        if not (field.has_focus and field.value != self._text):
            self._text = field.value = text

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take what was typed, and give the keyboard back to the screen."""
        event.stop()
        if self._take(event.value):
            self.screen.focus_next()

    def on_input_blurred(self, event: Input.Blurred) -> None:
        event.stop()
        self._take(event.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Nobody else's business before it is confirmed."""
        event.stop()

    def action_leave(self) -> None:
        """Back to the screen's keys, with the value as it was."""
        self.query_one(Input).value = self._text
        self.remove_class("-wrong")
        self.screen.focus_next()

    def _take(self, text: str) -> bool:
        """Whether this is a value."""
        if text == self._text:
            return True
        try:
            value = self._read(text)
        except UsageError as error:
            self.add_class("-wrong")
            self.notify(error.message, severity="error", timeout=4)
            return False
        self.remove_class("-wrong")
        self._text = text
        self.post_message(self.Changed(self, value))
        return True
