"""Recall as a grid: depths across, lengths down, arms beside each other or one below the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ropewalk.measuring.records import RecallCell
from ropewalk.report.grid import Mark, mark_of, pooled, strip_of
from ropewalk.tui.described import STYLES
from ropewalk.tui.runview import ArmView, Key, RunView
from ropewalk.tui.text import clean
from ropewalk.tui.themes import stylesheet
from ropewalk.units import format_tokens

_LABEL = 10
_GAP = 2
_POOLED = len("30/30 100–100%")
_NARROWEST, _WIDEST, _TALLEST = 1, 7, 4
_PENDING = ("□", "$frame")
_CURRENT = ("◌", "bold $foreground")
_OUTLINE = ("▐", "▌")


def style_of(mark: Mark) -> str:
    """The colour of a mark, the same on every page."""
    return STYLES[mark.tone] or "$foreground"


@dataclass(frozen=True, slots=True)
class _Layout:
    """Arms beside each other or not, and the cells that fill the room."""

    abreast: bool
    cell_width: int
    cell_height: int

    def arm_width(self, depths: int) -> int:
        """One arm's cells, each with a place for the outline on both sides, and what they come to."""
        return depths * (self.cell_width + 1) + 1 + _GAP + _POOLED


@dataclass(frozen=True, slots=True)
class _Band:
    """What one line shows: the arms in it at a length, None for both in a heading."""

    arms: tuple[ArmView, ...]
    length: int | None
    text: Content


class Heatmap(Widget, can_focus=True):
    """The grid with a cursor; tells which cell it is on. What is too tall moves with the cursor."""

    DEFAULT_CSS = stylesheet(__file__)
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1, 0)", "left", show=False),
        Binding("right,l", "move(1, 0)", "right", show=False),
        Binding("up,k", "move(0, -1)", "up", show=False),
        Binding("down,j", "move(0, 1)", "down", show=False),
    ]

    @dataclass
    class Highlighted(Message):
        """The cursor is on this cell."""

        key: Key

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._view: RunView | None = None
        self._cells: dict[Key, RecallCell] = {}
        self._task_name = ""
        self._at = (0, 0, 0)  # arm, length, depth

    def show(self, view: RunView | None, task: str) -> None:
        """Draw a run's cells of one task."""
        self._view, self._task_name = view, task
        self._cells = {} if view is None else view.cells()
        self.refresh()

    def key(self) -> Key | None:
        """The cell under the cursor."""
        view = self._view
        if view is None or not view.arms or not view.lengths or not view.depths:
            return None
        arm, length, depth = self._at
        return self._key(
            view.arms[min(arm, len(view.arms) - 1)],
            view.lengths[min(length, len(view.lengths) - 1)],
            view.depths[min(depth, len(view.depths) - 1)],
        )

    def _key(self, arm: ArmView, length: int, depth: float) -> Key:
        return (arm.name, self._task_name, length, depth)

    def render(self) -> Content:
        """Where the depths are, the grid, what the marks in it mean."""
        view = self._view
        if view is None or not view.arms:
            return Content("")
        layout = self._layout(view)
        bands = self._in_sight(list(self._bands(view, layout)))
        lines = [self._depths(view, layout), *(band.text for band in bands), self._legend()]
        return Content("\n").join(lines)

    def _layout(self, view: RunView) -> _Layout:
        arms, depths, lengths = len(view.arms), max(1, len(view.depths)), max(1, len(view.lengths))
        room = self.size.width - _LABEL - _GAP - _POOLED - 1
        beside = (self.size.width - _LABEL) // arms - 2 * _GAP - _POOLED - 1
        abreast = arms == 1 or beside // depths - 1 >= 2
        wide = (beside if abreast else room) // depths - 1
        tall = (self.size.height - 3 - (0 if abreast else arms)) // (lengths * (1 if abreast else arms))
        return _Layout(abreast, min(max(wide, _NARROWEST), _WIDEST), min(max(tall - (tall > 2), 1), _TALLEST))

    def _depths(self, view: RunView, layout: _Layout) -> Content:
        """``start 10 30 50 70 90 end``: per cent of the prompt."""
        names = [f"{depth * 100:.0f}" for depth in view.depths]
        cells = " ".join(f"{name:^{layout.cell_width}.{layout.cell_width}}" for name in names)
        block = f" {cells} {'':{_GAP}}{'recall, 95 %':{_POOLED}}"
        times = len(view.arms) if layout.abreast else 1
        return Content.styled(f"{'depth %':>{_LABEL - 1}} " + (" " * _GAP).join([block] * times), "$grey")

    def _bands(self, view: RunView, layout: _Layout) -> Iterator[_Band]:
        groups = [view.arms] if layout.abreast else [(arm,) for arm in view.arms]
        for arms in groups:
            yield _Band((), None, self._names(arms, view, layout))
            for length in view.lengths:
                yield from self._row(arms, length, view, layout)

    def _names(self, arms: Sequence[ArmView], view: RunView, layout: _Layout) -> Content:
        if not layout.abreast:
            return Content.styled(clean(_arm_title(arms[0])), "bold")
        width = layout.arm_width(len(view.depths))
        names = (f"{clean(_arm_title(arm)):{width}.{width}}" for arm in arms)
        return Content.styled(" " * _LABEL + (" " * _GAP).join(names), "bold")

    def _row(self, arms: Sequence[ArmView], length: int, view: RunView, layout: _Layout) -> Iterator[_Band]:
        """One line or several; the first has the figures."""
        for line in range(layout.cell_height):
            label = f"{format_tokens(length):>{_LABEL - 1}} " if line == 0 else " " * _LABEL
            parts = [Content.styled(label, "$grey")]
            for arm in arms:
                parts += self._strip(arm, length, view, layout.cell_width)
                words = self._pooled(arm, length, view) if line == 0 else ""
                parts.append(Content(f"{'':{_GAP}}{words:{_POOLED}}{'':{_GAP}}"))
            yield _Band(tuple(arms), length, Content("").join(parts).rstrip())

    def _strip(self, arm: ArmView, length: int, view: RunView, width: int) -> Iterator[Content]:
        """The cells of an arm at a length, with the outline around the one under the cursor."""
        cursor = self.key() if self.has_focus else None
        edge = " "
        for depth in view.depths:
            key = self._key(arm, length, depth)
            symbol, style = self._look(key)
            left, right = _OUTLINE if key == cursor else (edge, " ")
            edge = right
            yield Content.styled(left, "bold $foreground")
            yield Content.styled(symbol * width, style)
        yield Content.styled(edge, "bold $foreground")

    def _look(self, key: Key) -> tuple[str, str]:
        cell, view = self._cells.get(key), self._view
        current = view.current if view else None
        if current and (current.arm, current.task, current.length, current.depth) == key:
            return _CURRENT
        if cell is None:
            return _PENDING
        mark = mark_of(cell)
        return mark.symbol, style_of(mark)

    def _pooled(self, arm: ArmView, length: int, view: RunView) -> str:
        keys = (self._key(arm, length, depth) for depth in view.depths)
        strip = strip_of([self._cells[key] for key in keys if key in self._cells])
        return "" if strip is None else pooled(strip)

    def _in_sight(self, bands: list[_Band]) -> list[_Band]:
        """As many lines as there is room for, with the cursor's among them."""
        room = max(1, self.size.height - 2)
        key = self.key()
        if len(bands) <= room or key is None:
            return bands
        at = next(
            (
                place
                for place, band in enumerate(bands)
                if band.length == key[2] and key[0] in [arm.name for arm in band.arms]
            ),
            0,
        )
        top = min(max(0, at - room // 2), len(bands) - room)
        return bands[top : top + room]

    def _legend(self) -> Content:
        """The marks that occur, in the order of their first cell."""
        marks = {mark.words: mark for mark in map(mark_of, self._cells.values())}
        parts = [
            Content.assemble((mark.symbol, style_of(mark)), f" {words}") for words, mark in marks.items()
        ]
        view = self._view
        asked = 0 if view is None else len(view.arms) * len(view.lengths) * len(view.depths)
        if len([key for key in self._cells if key[1] == self._task_name]) < asked:
            parts.append(Content.assemble(_PENDING, " not asked"))
        return Content("  ").join(parts)

    def action_move(self, right: int, down: int) -> None:
        """To the next cell, over the borders of arms."""
        view = self._view
        if view is None or not view.arms or not view.lengths or not view.depths:
            return
        arms, lengths, depths = len(view.arms), len(view.lengths), len(view.depths)
        arm, length, depth = self._at
        if self._layout(view).abreast:
            column = min(max(arm * depths + depth + right, 0), arms * depths - 1)
            self._put((*divmod(column, depths), min(max(length + down, 0), lengths - 1)))
        else:
            row = min(max(arm * lengths + length + down, 0), arms * lengths - 1)
            arm, length = divmod(row, lengths)
            self._put((arm, min(max(depth + right, 0), depths - 1), length))

    def on_click(self, event: events.Click) -> None:
        """The cell that was pointed at."""
        view = self._view
        if view is None or not view.arms or not view.lengths or not view.depths:
            return
        layout = self._layout(view)
        bands = self._in_sight(list(self._bands(view, layout)))
        width = layout.arm_width(len(view.depths)) + _GAP
        column, within = divmod(event.x - _LABEL, width)
        depth = (within - 1) // (layout.cell_width + 1)
        if not 1 <= event.y <= len(bands) or not 0 <= depth < len(view.depths):
            return
        band = bands[event.y - 1]
        if band.length is not None and 0 <= column < len(band.arms):
            arm = view.arms.index(band.arms[column])
            self._put((arm, depth, view.lengths.index(band.length)))

    def _put(self, at: tuple[int, int, int]) -> None:
        """``at`` is arm, depth, length."""
        arm, depth, length = at
        self._at = (arm, length, depth)
        self.refresh()
        key = self.key()
        if key is not None:
            self.post_message(self.Highlighted(key))


def _arm_title(arm: ArmView) -> str:
    return f"{arm.label} ({format_tokens(arm.context_len)})" if arm.context_len else arm.label
