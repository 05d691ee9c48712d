"""The log of an engine: follows its end, and shows only lines with the words that are searched for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ropewalk.tui.text import clean
from ropewalk.tui.themes import stylesheet

_WIDEST = 1000
_ALARMS = ("error", " E ", "failed", "abort")


class LogView(ScrollView, can_focus=True):
    """Lines that are drawn when they are seen."""

    DEFAULT_CSS = stylesheet(__file__)
    COMPONENT_CLASSES: ClassVar[set[str]] = {"log-view--alarm"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("end,G", "follow", "end", show=False),
        Binding("j", "scroll_down", "down", show=False),
        Binding("k", "scroll_up", "up", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: Sequence[str] = ()
        self._found: Sequence[str] = ()
        self._drawn: Sequence[str] = ()
        self._words: list[str] = []
        self._follows = True
        self._wraps = False

    @property
    def found(self) -> Sequence[str]:
        """The lines that are shown."""
        return self._found

    def show(self, lines: Sequence[str]) -> None:
        """Draw these lines; the view stays at the end if it was there."""
        if lines is not self._lines:
            self._lines = lines
            self._find()

    def search(self, text: str) -> None:
        """Show the lines that contain every word, whatever their case."""
        self._words = text.lower().split()
        self._find()

    def _find(self) -> None:
        words = self._words
        self._found = (
            [line for line in self._lines if all(word in line.lower() for word in words)]
            if words
            else self._lines
        )
        self._drawn = list(self._broken()) if self._wraps else self._found
        widest = max((len(line) for line in self._found), default=0)
        width = 0 if self._wraps else min(widest, _WIDEST)
        self.virtual_size = Size(width, len(self._drawn))
        self.refresh()
        if self._follows:
            self.call_after_refresh(self.scroll_end, animate=False, immediate=True)

    def _broken(self) -> Iterator[str]:
        """The lines broken at the width."""
        width = max(20, self.size.width - 1)
        for line in self._found:
            yield from (line[start : start + width] for start in range(0, max(1, len(line)), width))

    def wrap(self) -> None:
        """Break long lines, or no longer."""
        self._wraps = not self._wraps
        self._find()

    def on_resize(self) -> None:
        """Lines may break elsewhere now."""
        if self._wraps:
            self._find()

    def render_line(self, y: int) -> Strip:
        """The line that is there after scrolling."""
        left, top = self.scroll_offset
        place = top + y
        if place >= len(self._drawn):
            return Strip.blank(self.size.width, self.rich_style)
        line = clean(self._drawn[place])[:_WIDEST]
        is_alarm = any(word in line for word in _ALARMS)
        style = self.get_component_rich_style("log-view--alarm") if is_alarm else self.rich_style
        strip = Strip([Segment(line, style)])
        return strip.crop_extend(left, left + self.size.width, self.rich_style)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Whoever scrolls back is left alone until the end is in sight again."""
        super().watch_scroll_y(old_value, new_value)
        self._follows = new_value >= self.max_scroll_y

    def action_follow(self) -> None:
        """To the end, and stay there."""
        self.scroll_end(animate=False, immediate=True)
