"""The names of panels of which one is shown: left and right go from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ropewalk.tui.themes import stylesheet

_GAP = 2


class PanelTabs(Widget, can_focus=True):
    """One line; tells which panel is to be shown."""

    DEFAULT_CSS = stylesheet(__file__)
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "step(-1)", "panel before", show=False),
        Binding("right,l", "step(1)", "next panel"),
    ]

    @dataclass
    class Changed(Message):
        """This panel is to be shown."""

        name: str

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._names: tuple[str, ...] = ()
        self._marked: frozenset[str] = frozenset()
        self.chosen = ""

    def show(self, names: Sequence[str], *, marked: frozenset[str] = frozenset()) -> None:
        """Offer these; the one that is shown stays, if it is among them. ``marked`` are worth a look."""
        self._names, self._marked = tuple(names), marked
        if self.chosen not in self._names:
            self._choose(self._names[0])
        self.refresh()

    def render(self) -> Content:
        """The chosen one between brackets."""
        parts = [self._tab(name) for name in self._names]
        return Content(" " * (_GAP - 1)).join(parts)

    def _tab(self, name: str) -> Content:
        mark = "!" if name in self._marked else ""
        if name == self.chosen:
            return Content.styled(f"[{name}{mark}]", "bold $accent" if self.has_focus else "bold $primary")
        return Content.styled(f" {name}{mark} ", "$warning" if mark else "$grey")

    def action_step(self, steps: int) -> None:
        """The next panel or the one before."""
        place = self._names.index(self.chosen)
        self._choose(self._names[(place + steps) % len(self._names)])

    def on_click(self, event: events.Click) -> None:
        """The name that was pointed at."""
        start = 0
        for name in self._names:
            end = start + self._tab(name).cell_length
            if start <= event.x < end:
                self._choose(name)
            start = end + _GAP - 1

    def _choose(self, name: str) -> None:
        if name != self.chosen:
            self.chosen = name
            self.refresh()
            self.post_message(self.Changed(name))
