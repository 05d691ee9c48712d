"""One of a few values on one line: ``engine ‹vllm›``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from ropewalk.tui.themes import stylesheet


class Choice(Widget, can_focus=True):
    """Left and right go through the values, and so do clicks."""

    DEFAULT_CSS = stylesheet(__file__)
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "before", show=False),
        Binding("right,space,enter", "step(1)", "next value"),
    ]
    value: reactive[Any] = reactive(None, layout=True)

    @dataclass
    class Changed(Message):
        """Another value was chosen."""

        choice: Choice
        value: Any

        @property
        def control(self) -> Choice:
            return self.choice

    def __init__(self, label: str, options: Sequence[tuple[Any, str]] = (), *, id: str) -> None:
        super().__init__(id=id)
        self._label = label
        self._options = tuple(options)

    def show(self, value: Any, options: Sequence[tuple[Any, str]] | None = None) -> None:
        """Draw a value that came from elsewhere; one that is no option is shown as it is."""
        if options is not None:
            self._options = tuple(options)
        self.value = value
        self.refresh(layout=True)

    def render(self) -> Content:
        """The label and the value between brackets."""
        text = next((words for value, words in self._options if value == self.value), str(self.value))
        style = "bold $accent" if self.has_focus else "bold $foreground"
        return Content.assemble((f"{self._label} ", "$grey"), (f"‹{text}›", style))

    def action_step(self, steps: int) -> None:
        """The next value or the one before."""
        if not self._options:
            return
        values = [value for value, _ in self._options]
        place = values.index(self.value) if self.value in values else -1
        chosen = values[(place + steps) % len(values)]
        if chosen != self.value:
            self.value = chosen
            self.post_message(self.Changed(self, chosen))

    def on_click(self) -> None:
        self.action_step(1)
