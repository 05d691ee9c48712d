"""A list of records with a cursor: facts, findings, terms of memory, whatever is told line by line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from ropewalk.tui.themes import stylesheet


class RecordList(OptionList):
    """Lines, each for a record; tells which one the cursor is on, and which one is chosen."""

    DEFAULT_CSS = stylesheet(__file__)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "down", show=False),
        Binding("k", "cursor_up", "up", show=False),
    ]

    @dataclass
    class Highlighted(Message):
        """The cursor is on this record."""

        origin: RecordList
        record: Any

        @property
        def control(self) -> RecordList:
            return self.origin

    @dataclass
    class Chosen(Message):
        """This record was chosen by enter or the mouse."""

        origin: RecordList
        record: Any

        @property
        def control(self) -> RecordList:
            return self.origin

    def __init__(self, *, id: str | None = None, start_on_first: bool = False) -> None:
        super().__init__(id=id, compact=True)
        self._start_on_first = start_on_first
        self.records: list[Any] = []

    def show(self, lines: Iterable[tuple[Any, Content]]) -> None:
        """Replace the lines; the cursor stays where it was as far as there are lines. A line of None is a
        heading, which the cursor passes over."""
        pairs = list(lines)
        place = self.highlighted
        self.records = [record for record, _ in pairs]
        self.set_options(Option(line, disabled=record is None) for record, line in pairs)
        places = [at for at, (record, _) in enumerate(pairs) if record is not None]
        if places and (place is not None or self._start_on_first):
            self.highlighted = min(places, key=lambda at: abs(at - (place or 0)))

    def record(self) -> Any:
        """The record under the cursor, or None."""
        return None if self.highlighted is None else self.records[self.highlighted]

    def go_to(self, record: Any) -> None:
        """Put the cursor on a record."""
        if record in self.records:
            self.highlighted = self.records.index(record)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if event.option_index < len(self.records):
            self.post_message(self.Highlighted(self, self.records[event.option_index]))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_index < len(self.records):
            self.post_message(self.Chosen(self, self.records[event.option_index]))
