"""Recall as a grid: arms side by side, lengths down, depths across, filled cell by cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ropewalk.measuring.records import RecallCell
from ropewalk.report.grid import MARKS, PARTIAL, mark_of
from ropewalk.tui.runview import ArmView, Key, RunView
from ropewalk.tui.themes import stylesheet
from ropewalk.units import format_tokens, format_tokens_short

_LABEL = 9
_GAP = 2
_WIDEST, _TALLEST = 8, 5
_GAPPED = 3  # lines from which on the last one is left empty
# Colours of what a mark says; its symbol is the report's own.
STYLES = {
    MARKS[outcome].words: style
    for outcome, style in {
        "hit": "$blue", "miss": "$orange", "wrong_needle": "$purple", "refused": "$grey",
        "declined": "$yellow", "truncated": "$yellow", "lost_to_reasoning": "$yellow",
        "invalid": "$red", "error": "$red",
    }.items()
} | {PARTIAL.words: "$blue"}  # fmt: skip
_PENDING = ("□", "$frame")
_CURRENT = ("◌", "bold $foreground")


@dataclass(frozen=True, slots=True)
class _Layout:
    """Widths and heights of the cells that fill the room."""

    cell_width: int
    cell_height: int
    arm_width: int


class Heatmap(Widget, can_focus=True):
    """The grid with a cursor; tells which cell it is on."""

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
        self._at = (0, 0)

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
        column, row = self._at
        arm, depth = divmod(min(column, len(view.arms) * len(view.depths) - 1), len(view.depths))
        length = view.lengths[min(row, len(view.lengths) - 1)]
        return (view.arms[arm].name, self._task_name, length, view.depths[depth])

    def render(self) -> Content:
        """Names of the arms, the grid, what the symbols mean."""
        view = self._view
        if view is None or not view.arms:
            return Content("")
        layout = self._layout(view)
        lines = [self._names(view, layout)]
        for length in view.lengths:
            lines += self._row(view, length, layout)
        lines.append(self._legend())
        return Content("\n").join(lines)

    def _layout(self, view: RunView) -> _Layout:
        arms, depths = len(view.arms), max(1, len(view.depths))
        wide = (self.size.width - _LABEL) // arms - _GAP - len("30/30") - 1
        cell_width = min(max(wide // depths, 2), _WIDEST)
        tall = (self.size.height - 2) // max(1, len(view.lengths))
        return _Layout(cell_width, min(max(tall, 1), _TALLEST), cell_width * depths + len("30/30") + 1)

    def _names(self, view: RunView, layout: _Layout) -> Content:
        names = (_arm_title(arm) for arm in view.arms)
        cells = (f"{name:{layout.arm_width}.{layout.arm_width}}" for name in names)
        return Content.styled(" " * _LABEL + (" " * _GAP).join(cells), "bold")

    def _row(self, view: RunView, length: int, layout: _Layout) -> list[Content]:
        """One line, or several of which the middle one has the symbols."""
        drawn = layout.cell_height - (layout.cell_height >= _GAPPED)
        middle = (drawn - 1) // 2
        lines = []
        for line in range(drawn):
            label = f"{format_tokens(length):>{_LABEL - 1}} " if line == middle else " " * _LABEL
            parts = [Content.styled(label, "$grey")]
            for arm in view.arms:
                keys = [(arm.name, self._task_name, length, depth) for depth in view.depths]
                parts += [self._cell(key, layout.cell_width, middle=line == middle) for key in keys]
                count = self._count(keys) if line == middle else ""
                parts.append(Content.styled(f" {count:<{len('30/30') + _GAP}}", "$grey"))
            lines.append(Content("").join(parts))
        return [*lines, *[Content("")] * (layout.cell_height - drawn)]

    def _cell(self, key: Key, width: int, *, middle: bool) -> Content:
        symbol, style = self._look(key)
        has_cursor = self.has_focus and key == self.key()
        filled = key in self._cells and width > 2
        text = (symbol if middle else " ").center(width - 1)
        if has_cursor:
            framed = f"[{text[1:-1]}]" if middle and width > 3 else text
            return Content.assemble(
                (framed, "bold $block-cursor-foreground on $block-cursor-background"), " "
            )
        return Content.assemble((text, f"bold $background on {style}" if filled else style), " ")

    def _look(self, key: Key) -> tuple[str, str]:
        cell, view = self._cells.get(key), self._view
        current = view.current if view else None
        if current and (current.arm, current.task, current.length, current.depth) == key:
            return _CURRENT
        if cell is None:
            return _PENDING
        mark = mark_of(cell)
        return mark.symbol, STYLES[mark.words]

    def _count(self, keys: list[Key]) -> str:
        cells = [self._cells[key] for key in keys if key in self._cells]
        return f"{sum(cell.hits for cell in cells)}/{sum(cell.trials for cell in cells)}" if cells else ""

    def _legend(self) -> Content:
        marks = {mark.words: mark for mark in map(mark_of, self._cells.values())}
        parts = [Content.assemble((mark.symbol, STYLES[words]), f" {words}") for words, mark in marks.items()]
        parts.append(Content.assemble(_PENDING, " not asked"))
        return Content("  ").join(parts)

    def action_move(self, right: int, down: int) -> None:
        view = self._view
        if view is None or not view.arms or not view.lengths:
            return
        columns, rows = len(view.arms) * max(1, len(view.depths)), len(view.lengths)
        column, row = self._at
        self._put((min(max(column + right, 0), columns - 1), min(max(row + down, 0), rows - 1)))

    def on_click(self, event: events.Click) -> None:
        """The cell that was pointed at."""
        view = self._view
        if view is None or not view.arms or not view.lengths:
            return
        layout = self._layout(view)
        arm, within = divmod(event.x - _LABEL, layout.arm_width + _GAP)
        depth = within // layout.cell_width
        row = (event.y - 1) // layout.cell_height
        if 0 <= arm < len(view.arms) and 0 <= depth < len(view.depths) and 0 <= row < len(view.lengths):
            self._put((arm * len(view.depths) + depth, row))

    def _put(self, at: tuple[int, int]) -> None:
        self._at = at
        self.refresh()
        key = self.key()
        if key is not None:
            self.post_message(self.Highlighted(key))


def _arm_title(arm: ArmView) -> str:
    return f"{arm.label} {format_tokens_short(arm.context_len)}" if arm.context_len else arm.label
