"""Points and lines on a grid of characters: axes, braille lines, symbols, levels. Pure; drawn by a widget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, isfinite, log, log10

Point = tuple[float, float]
Cell = tuple[str, str]  # a character and its style

_BRAILLE = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # rows of two dots each


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values, ``low`` < ``high``; logarithmic to ``base`` where it is given (both above 0).

    ``unit`` is what round steps are counted in.
    """

    low: float
    high: float
    base: int | None = None
    unit: float = 1.0

    def share(self, value: float) -> float:
        """Where a value lies, from 0 to 1; what is outside lies at the end."""
        low, high = self._at(self.low), self._at(self.high)
        return min(max((self._at(value) - low) / ((high - low) or 1.0), 0.0), 1.0)

    def _at(self, value: float) -> float:
        return log(max(value, 1e-300), self.base) if self.base else value


def axis_over(values: Sequence[float], *, base: int | None = None, unit: float = 1.0) -> Axis:
    """The axis that shows all of these; from nothing up, unless it is logarithmic."""
    finite = [value for value in values if isfinite(value) and (value > 0 or not base)]
    low, high = min(finite, default=1.0), max(finite, default=1.0)
    if not base:
        low = min(0.0, low)
    if low == high:
        high = low * 2 if low else 1.0
    return Axis(low, high, base, unit)


@dataclass(frozen=True, slots=True)
class Series:
    """Points in one style: a line of braille dots where ``symbol`` is None, broken where a value is not
    finite, else that symbol at each."""

    points: Sequence[Point]
    style: str
    symbol: str | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line across the plot, with its name where no curve is."""

    value: float
    name: str
    style: str
    stroke: str = "─"


@dataclass(slots=True)
class Canvas:
    """``width`` x ``height`` characters, each with braille dots or a symbol; strokes lie under both."""

    width: int
    height: int
    strokes: dict[int, Cell] = field(default_factory=dict)
    dots: dict[tuple[int, int], tuple[int, str]] = field(default_factory=dict)
    symbols: dict[tuple[int, int], Cell] = field(default_factory=dict)

    def put(self, column: int, row: int, symbol: str, style: str) -> None:
        """A symbol in a cell; it hides what is there."""
        if 0 <= column < self.width and 0 <= row < self.height:
            self.symbols[column, row] = (symbol, style)

    def write(self, column: int, row: int, text: str, style: str) -> None:
        """Write a text from a cell to the right."""
        for offset, character in enumerate(text):
            self.put(column + offset, row, character, style)

    def dot(self, x: float, y: float, style: str) -> None:
        """A braille dot at shares of the width and of the height, from the bottom left."""
        column, row = round(x * (2 * self.width - 1)), round((1 - y) * (4 * self.height - 1))
        cell = (column // 2, row // 4)
        bits, _ = self.dots.get(cell, (0, style))
        self.dots[cell] = (bits | _DOTS[row % 4][column % 2], style)

    def line(self, start: Point, end: Point, style: str) -> None:
        """Dots from one place to another, close enough to touch."""
        steps = max(
            1, round(abs(end[0] - start[0]) * 2 * self.width), round(abs(end[1] - start[1]) * 4 * self.height)
        )
        for step in range(steps + 1):
            share = step / steps
            self.dot(start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1]), style)

    def rows(self) -> list[list[Cell]]:
        """The cells, from the top."""
        return [[self._cell(column, row) for column in range(self.width)] for row in range(self.height)]

    def _cell(self, column: int, row: int) -> Cell:
        if (column, row) in self.symbols:
            return self.symbols[column, row]
        bits, style = self.dots.get((column, row), (0, ""))
        return (chr(_BRAILLE + bits), style) if bits else self.strokes.get(row, (" ", ""))


def draw(
    canvas: Canvas, series: Sequence[Series], levels: Sequence[Level], *, x_axis: Axis, y_axis: Axis
) -> None:
    """Levels first, then the series over them in the order given."""
    rows = [round((1 - y_axis.share(level.value)) * (canvas.height - 1)) for level in levels]
    for level, row in zip(levels, rows, strict=True):
        canvas.strokes[row] = (level.stroke, level.style)
    for one in series:
        places = [(x_axis.share(x), y_axis.share(y)) if isfinite(y) else None for x, y in one.points]
        if one.symbol is None:
            for here, there in zip(places, [*places[1:], None], strict=False):
                if here is not None:
                    canvas.line(here, there or here, one.style)
        else:
            for x, y in filter(None, places):
                column, row = round(x * (canvas.width - 1)), round((1 - y) * (canvas.height - 1))
                canvas.put(column, row, one.symbol, one.style)
    for level, row in zip(levels, rows, strict=True):
        _name(canvas, level, row)


def _name(canvas: Canvas, level: Level, row: int) -> None:
    """The name of a level on its line, or on the one above or below, where it covers nothing."""
    text = f" {level.name} "
    for line in (row, row - 1, row + 1):
        for start in range(1, canvas.width - len(text)):
            cells = [(column, line) for column in range(start - 1, start + len(text))]
            if 0 <= line < canvas.height and not any(c in canvas.dots or c in canvas.symbols for c in cells):
                canvas.write(start, line, text, level.style)
                return


def ticks(axis: Axis, count: int) -> list[float]:
    """At most some ``count`` values worth a label: powers of the base, or round steps."""
    if axis.base:
        first, last = ceil(log(axis.low, axis.base)), floor(log(axis.high, axis.base))
        step = max(1, -(-(last - first + 1) // max(count, 1)))
        return [float(axis.base**power) for power in range(first, last + 1, step)]
    rough = (axis.high - axis.low) / max(count, 1) / axis.unit
    power = 10.0 ** floor(log10(rough))
    size = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough) * axis.unit
    start = -(-axis.low // size)
    return [size * (start + place) for place in range(count + 1) if size * (start + place) <= axis.high]


def label_rows(axis: Axis, height: int, *, count: int, write: Callable[[float], str]) -> dict[int, str]:
    """Labels of a vertical axis by row from the top."""
    return {round((1 - axis.share(value)) * (height - 1)): write(value) for value in ticks(axis, count)}


def label_columns(axis: Axis, width: int, *, count: int, write: Callable[[float], str]) -> str:
    """Labels of a horizontal axis in one line; one that would touch another is left out."""
    line = [" "] * width
    free, last = 0, ""
    for value in ticks(axis, count):
        text = write(value)
        if text == last:  # closer together than the labels can tell
            continue
        last = text
        start = min(
            max(round(axis.share(value) * (width - 1)) - len(text) // 2, 0), max(0, width - len(text))
        )
        if start >= free:
            line[start : start + len(text)] = text
            free = start + len(text) + 1
    return "".join(line)
