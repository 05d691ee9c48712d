"""Tensors as lines that are made when they are seen: 92,000 rows cost no more than a screenful."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from ropewalk.inspector.tensors import Tensor, TensorTable
from ropewalk.report.tensors import shape_text
from ropewalk.tui.tensor_rows import Column
from ropewalk.tui.text import clean, short_count
from ropewalk.tui.themes import stylesheet
from ropewalk.units import format_bytes

_NAME_WIDTH = 20  # below this another column goes instead
_GAP = 1
_WHEEL_ROWS = 3
_LAYERS = re.compile(r"^(?:\w+\.)*(?:layers|layer|blocks|h)\.(?=\d+\.)")


@dataclass(frozen=True, slots=True)
class _Heading:
    """A column: its width, and how early it gives way (0 never does)."""

    column: Column
    width: int
    goes: int
    right: bool = False


_HEADINGS = (
    _Heading("dtype", 7, 3),
    _Heading("shape", 15, 2),
    _Heading("elements", 8, 1, right=True),
    _Heading("bytes", 10, 0, right=True),
    _Heading("file", 32, 4),
)


class TensorList(Widget, can_focus=True):
    """Rows of a tensor table, with a heading that stays, a cursor and a scroll bar.

    It scrolls on its own: a scroll view lays out the whole screen anew whenever its height changes, which
    is with every letter of a filter.
    """

    DEFAULT_CSS = stylesheet(__file__)
    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "tensor-list--heading",
        "tensor-list--cursor",
        "tensor-list--figure",
        "tensor-list--bar",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home,g", "end(0)", "first", show=False),
        Binding("end,G", "end(1)", "last", show=False),
        Binding("enter", "choose", "open"),
    ]
    cursor = reactive(0, repaint=False)

    @dataclass
    class Chosen(Message):
        """A tensor is to be shown in full."""

        tensor: Tensor

    @dataclass
    class HeadingChosen(Message):
        """The rows are to be sorted by this column."""

        column: Column

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._table = TensorTable()
        self._rows: Sequence[int] = ()
        self._top = 0
        self._sorted: tuple[Column, bool] = ("stored", False)
        self._counts_elements = False
        self._front = ""
        self._headings: tuple[_Heading, ...] = ()

    @property
    def rows(self) -> Sequence[int]:
        """The rows of the table that are listed, in order."""
        return self._rows

    def show(
        self,
        table: TensorTable,
        rows: Sequence[int],
        *,
        front: str,
        by: tuple[Column, bool],
        elements: bool = False,
    ) -> None:
        """List these rows. ``front`` is what all their names begin with and is not repeated; ``by`` is the
        column they are sorted by and whether backwards; ``elements`` says that packed words are counted."""
        self._table, self._rows, self._front = table, rows, front
        self._sorted, self._counts_elements = by, elements
        self.cursor = self._within(self.cursor)
        self._keep_cursor_in_sight()
        self.refresh()

    def go_to(self, row: int) -> None:
        """Put the cursor on a row of the table, if it is listed."""
        if row in self._rows:
            self.cursor = self._rows.index(row)

    def chosen(self) -> Tensor | None:
        """The tensor under the cursor."""
        return self._table.row(self._rows[self.cursor]) if self._rows else None

    def render_line(self, y: int) -> Strip:
        """The heading, or the row that is there after scrolling."""
        if y == 0:
            return self._line(
                self._heading_cells(), self.get_component_rich_style("tensor-list--heading"), " "
            )
        place = self._top + y - 1
        if place >= len(self._rows):
            return Strip.blank(self.size.width, self.rich_style)
        style = self.rich_style
        if place == self.cursor:
            style += self.get_component_rich_style("tensor-list--cursor")
        return self._line(
            self._cells(self._rows[place]), style, self._bar(y - 1), figures=place != self.cursor
        )

    def _bar(self, line: int) -> str:
        """The scroll bar beside a line: dark where the rows in sight are among all rows."""
        shown, count = self._shown, len(self._rows)
        if count <= shown:
            return " "
        length = max(1, shown * shown // count)
        start = self._top * (shown - length) // (count - shown)
        return "█" if start <= line < start + length else "│"

    @property
    def _shown(self) -> int:
        """How many rows are in sight."""
        return max(1, self.size.height - 1)

    def _line(self, cells: Sequence[str], style: Style, bar: str, *, figures: bool = False) -> Strip:
        dim = style + self.get_component_rich_style("tensor-list--figure") if figures else style
        headings = self._headings
        room = max(1, self.size.width - 1 - _total(headings))
        name = cells[0] if len(headings) == len(_HEADINGS) else shortened(cells[0])
        segments = [Segment(_fit(name, room), style)]
        for heading, text in zip(headings, cells[1:], strict=True):
            fitted = _fit(text, heading.width)
            aligned = fitted.strip().rjust(heading.width) if heading.right else fitted
            segments.append(Segment(" " * _GAP + aligned, dim))
        segments.append(Segment(bar, self.get_component_rich_style("tensor-list--bar")))
        return Strip(segments, self.size.width)

    def _heading_cells(self) -> list[str]:
        column, backwards = self._sorted
        mark = " ▼" if backwards else " ▲"
        named = {"elements": "elements" if self._counts_elements else "params"}
        return [
            named.get(name, name) + (mark if name == column else "")
            for name in ("name", *(heading.column for heading in self._headings))
        ]

    def _cells(self, row: int) -> list[str]:
        tensor = self._table.row(row)
        texts = {
            "dtype": tensor.dtype,
            "shape": shape_text(tensor.shape),
            "elements": short_count(tensor.elements),
            "bytes": format_bytes(tensor.nbytes),
            "file": tensor.file,
        }
        name = tensor.name.removeprefix(self._front) or tensor.name
        return [name, *(texts[heading.column] for heading in self._headings)]

    def watch_cursor(self, old: int, new: int) -> None:
        """Draw the two lines that change, or all where the cursor left the sight."""
        if self._keep_cursor_in_sight():
            self.refresh()
        else:
            lines = (place - self._top + 1 for place in (old, new))
            self.refresh(*(Region(0, line, self.size.width, 1) for line in lines if line > 0))

    def _keep_cursor_in_sight(self) -> bool:
        """Scroll as little as needed; whether anything moved."""
        lowest = max(0, self.cursor - self._shown + 1)
        return self._set_top(min(max(self._top, lowest), self.cursor))

    def _set_top(self, top: int) -> bool:
        top = min(max(top, 0), max(0, len(self._rows) - self._shown))
        moved, self._top = top != self._top, top
        return moved

    def on_resize(self) -> None:
        """The columns may be others now."""
        self._headings = _fitting(self.size.width - 1)
        self._keep_cursor_in_sight()
        self.refresh()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Three rows further; the cursor stays where it is."""
        event.stop()
        if self._set_top(self._top + _WHEEL_ROWS):
            self.refresh()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        if self._set_top(self._top - _WHEEL_ROWS):
            self.refresh()

    def action_move(self, step: int) -> None:
        self.cursor = self._within(self.cursor + step)

    def action_page(self, step: int) -> None:
        self.cursor = self._within(self.cursor + step * max(1, self._shown - 1))

    def action_end(self, last: int) -> None:
        """The first row or the last."""
        self.cursor = self._within(len(self._rows) if last else 0)

    def action_choose(self) -> None:
        """Show the tensor under the cursor in full."""
        tensor = self.chosen()
        if tensor is not None:
            self.post_message(self.Chosen(tensor))

    def on_click(self, event: events.Click) -> None:
        """A row takes the cursor, twice opens it; the heading sorts, the scroll bar goes there."""
        if event.y == 0:
            self._choose_heading(event.x)
        elif event.x == self.size.width - 1:
            self.cursor = self._within((event.y - 1) * len(self._rows) // self._shown)
        elif self._top + event.y - 1 < len(self._rows):
            self.cursor = self._top + event.y - 1
            if event.chain == 2:
                self.action_choose()

    def _choose_heading(self, x: int) -> None:
        right = self.size.width - 1
        for heading in reversed(self._headings):
            right -= heading.width + _GAP
            if x >= right:
                self.post_message(self.HeadingChosen(heading.column))
                return
        self.post_message(self.HeadingChosen("name"))

    def _within(self, place: int) -> int:
        return min(max(place, 0), max(0, len(self._rows) - 1))


def _fitting(width: int) -> tuple[_Heading, ...]:
    """The columns for which there is room beside the name."""
    shown = list(_HEADINGS)
    for heading in sorted(_HEADINGS, key=lambda heading: -heading.goes):
        if width - _total(shown) >= _NAME_WIDTH or not heading.goes:
            break
        shown.remove(heading)
    return tuple(shown)


def _total(headings: Sequence[_Heading]) -> int:
    return sum(heading.width + _GAP for heading in headings)


def shortened(name: str) -> str:
    """A name without what nearly all have, where there is little room: ``model.layers.`` before the number of
    its block, ``.weight`` at the end."""
    return _LAYERS.sub("", name).removesuffix(".weight")


def _fit(text: str, width: int) -> str:
    """Exactly ``width`` cells; a long text loses its front, where names are alike."""
    line = clean(text)
    if not line.isascii():
        return set_cell_size(line, width)
    return line.ljust(width) if len(line) <= width else f"…{line[-(width - 1) :]}"[:width]
