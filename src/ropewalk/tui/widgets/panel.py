"""A frame with a title around one or more parts of a screen."""

from __future__ import annotations

from textual.containers import Vertical, VerticalScroll
from textual.widget import Widget

from ropewalk.tui.themes import stylesheet


class Panel(Vertical):
    """Parts one below the other in a frame."""

    DEFAULT_CSS = stylesheet(__file__)

    def __init__(self, title: str, *parts: Widget, id: str) -> None:
        super().__init__(*parts, id=id)
        self.border_title = title


class ScrollPanel(VerticalScroll):
    """The same, for parts that may be taller than the frame."""

    DEFAULT_CSS = stylesheet(__file__)

    def __init__(self, title: str, *parts: Widget, id: str) -> None:
        super().__init__(*parts, id=id)
        self.border_title = title
