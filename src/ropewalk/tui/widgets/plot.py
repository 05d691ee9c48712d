"""A plot of lines and points that fills the room it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.widget import Widget

from ropewalk.tui.plotting import Axis, Canvas, Level, Series, draw, label_columns, label_rows
from ropewalk.tui.themes import stylesheet

_LABEL = 7


@dataclass(frozen=True, slots=True)
class Figure:
    """All that a plot shows; ``write_x`` and ``write_y`` word the labels of the axes."""

    series: Sequence[Series]
    x_axis: Axis
    y_axis: Axis
    write_x: Callable[[float], str]
    write_y: Callable[[float], str]
    levels: Sequence[Level] = ()


class Plot(Widget):
    """Draws a figure; ``empty`` is what it says without one."""

    DEFAULT_CSS = stylesheet(__file__)

    def __init__(self, *, empty: str = "", id: str | None = None) -> None:
        super().__init__(id=id)
        self._figure: Figure | None = None
        self._empty = empty

    def show(self, figure: Figure | None) -> None:
        self._figure = figure
        self.refresh()

    def render(self) -> Content:
        """The figure, or why there is none."""
        if self._figure is None or self.size.height < 3:
            return Content.styled(self._empty, "$grey")
        return figure_page(self._figure, self.size.width, self.size.height)


def figure_page(figure: Figure, width: int, height: int) -> Content:
    """The canvas with labels on the left and under it."""
    canvas = Canvas(max(4, width - _LABEL - 1), height - 1)
    draw(canvas, figure.series, figure.levels, x_axis=figure.x_axis, y_axis=figure.y_axis)
    labels = label_rows(figure.y_axis, canvas.height, count=max(2, height // 4), write=figure.write_y)
    lines = [
        Content.assemble((f"{labels.get(row, ''):>{_LABEL}.{_LABEL}} ", "$grey"), *cells).simplify()
        for row, cells in enumerate(canvas.rows())
    ]
    below = label_columns(figure.x_axis, canvas.width, count=max(2, width // 14), write=figure.write_x)
    lines.append(Content.styled(f"{'':{_LABEL}} {below}", "$grey"))
    return Content("\n").join(lines)
