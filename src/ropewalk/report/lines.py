"""A description laid out as lines of a width, each of runs with tones; terminal and application show them.

A number is never broken, nor parted from its unit; a table that is too wide drops its bars, then becomes
records of ``head value``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len

from ropewalk.report.figures import bar, range_bar
from ropewalk.report.page import (
    Bar,
    Block,
    Cell,
    Column,
    Fields,
    Line,
    Page,
    Parts,
    Plot,
    Table,
    Tone,
    Verbatim,
    Words,
    soft,
    words,
)
from ropewalk.units import format_tokens_short

Runs = tuple[tuple[str, Tone], ...]
BAR_WIDTH = 16
_MIN_WRAPPED, _MAX_WORD = 16, 26  # cells: a narrower column has a word a line; a longer word is broken
_PLOT_ROWS, _PLOT_WIDTH, _TICK_WIDTH = 12, 64, 9
_UNITS = r"(?:[KMGT]i?B|B|P?FLOPS?|[TG]FLOP|tokens?|tok/s|tokens/s|ms|µs|ns|s|min|%|–|of \d)"
_GLUE = re.compile(rf"(?<=\d) (?={_UNITS}(?:\b|\s|$|,))|(?<=–) (?=\d)")
_BLANK = "\N{NO-BREAK SPACE}"
_WORD = re.compile(r" +|[^ ]+")


def lay(block: Block, width: int | None) -> Iterator[Words]:
    """The lines. ``width`` None is as wide as it takes: nothing is wrapped."""
    match block:
        case str() | Words():
            yield from _wrapped(block, width)
        case Parts():
            yield from _parts(block, width)
        case Table():
            yield from _table(block, width)
        case Verbatim():
            yield from (words(line) for line in block.text.split("\n"))
        case Plot():
            yield from _plot(block, width)
        case Fields():
            yield from _fields(block, width)
        case Page():
            if block.title is not None:
                yield from _wrapped(block.title, width)
            for each in block.blocks:
                yield from lay(each, width)


def _runs(line: Line) -> Runs:
    return ((line, ""),) if isinstance(line, str) else line.runs


def _wrapped(line: Line, width: int | None) -> Iterator[Words]:
    """Broken between words; a word longer than the line at any place that is not inside a number."""
    if width is None or cell_len(str(line)) <= width:
        yield Words(_runs(line))
        return
    current: list[tuple[str, Tone]] = []
    used = 0
    for word, tone in _words(line):
        if used + cell_len(word) > width and used and not word.isspace():
            yield _trimmed(current)
            current, used = [], 0
        if word.isspace() and not used and current == []:
            continue
        for piece in _pieces(word, width - used if used == 0 else width):
            if used and used + cell_len(piece) > width and not piece.isspace():
                yield _trimmed(current)
                current, used = [], 0
            current.append((piece.replace(_BLANK, " "), tone))
            used += cell_len(piece)
    if current:
        yield _trimmed(current)


def _words(line: Line) -> Iterator[tuple[str, Tone]]:
    """Words and the gaps between them; a number and its unit are one word."""
    for text, tone in _runs(line):
        for found in _WORD.finditer(_GLUE.sub(_BLANK, text)):
            yield found[0], tone


def _pieces(word: str, width: int) -> Iterator[str]:
    while cell_len(word) > width > 0 and not word.isspace():
        cut = width
        while cut > 1 and re.match(r"[\d.,][\d.,]", word[cut - 1 : cut + 1]):
            cut -= 1
        cut = width if cut == 1 else cut
        slash = word.rfind("/", width // 2, cut)
        cut = slash + 1 if slash > 0 else cut
        yield word[:cut]
        word = word[cut:]
    yield word


def _trimmed(runs: Sequence[tuple[str, Tone]]) -> Words:
    kept = list(runs)
    while kept and kept[-1][0].isspace():
        kept.pop()
    return Words(tuple(kept))


def _parts(block: Parts, width: int | None) -> Iterator[Words]:
    line: Runs = ()
    used = 0
    for part in block.parts:
        text = cell_len(str(part))
        gap = cell_len(block.gap) if line else 0
        if line and width is not None and used + gap + max(text, block.width) > width:
            yield from _wrapped(Words(line), width)
            line, used, gap = (), 0, 0
        pad = " " * (block.width - text)
        line = (*line, *(((block.gap, ""),) if gap else ()), *_runs(part), *(((pad, ""),) if pad else ()))
        used += gap + max(text, block.width)
    yield from _wrapped(_trimmed(line) if line else "", width)


def _fields(block: Fields, width: int | None) -> Iterator[Words]:
    label_width = block.width
    if label_width is None:
        label_width = max((cell_len(label) for label, _ in block.rows), default=0) + 1
    room = None if width is None else max(width - label_width - 1, _MIN_WRAPPED)
    for label, content in block.rows:
        head = f"{label:<{label_width}} "
        for line in lay(content, room):
            yield Words(((head, block.tone), *line.runs))
            head = " " * (label_width + 1)


def _table(block: Table, width: int | None) -> Iterator[Words]:
    for shaped in (block, _without_bars(block)):
        widths = _widths(shaped, width)
        if widths:
            yield from _grid(shaped, widths)
            break
    else:
        assert width is not None  # noqa: S101 - without a width everything fits
        yield from _abreast(block, width) if block.abreast else _records(block, width)
    for note in block.notes:
        yield from _wrapped(soft(note) if isinstance(note, str) else note, width)


def _without_bars(block: Table) -> Table:
    kept = [
        place
        for place in range(len(block.columns))
        if not any(isinstance(row[place], Bar) for row in block.rows)
    ]
    return replace(
        block,
        columns=tuple(block.columns[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in block.rows),
    )


def _widths(block: Table, width: int | None) -> list[int]:
    """The width of each column; empty where they do not fit beside each other."""
    widths = [
        max([cell_len(column.head), *(cell_len(_text(cell)) for cell in cells)])
        for column, cells in zip(block.columns, _by_column(block), strict=True)
    ]
    if block.sections:
        fronts = zip(block.rows, block.sections, strict=True)
        widths[0] = max(cell_len(_text(row[0])) - len(front) + 2 * bool(front) for row, front in fronts)
    gaps = sum(len(_gap(column, each)) for column, each in zip(block.columns, widths, strict=True)) - 2
    excess = 0 if width is None else sum(widths) + gaps - width
    wrapping = [place for place, column in enumerate(block.columns) if column.wraps]
    for place in sorted(wrapping, key=lambda place: -widths[place]):
        words = (word for cell in _by_column(block)[place] for word in _text(cell).split())
        longest = max(map(cell_len, words), default=0)
        least = min(widths[place], max(_MIN_WRAPPED, min(longest, _MAX_WORD)))
        taken = min(max(excess, 0), widths[place] - least)
        widths[place] -= taken
        excess -= taken
    return widths if excess <= 0 else []


def _by_column(block: Table) -> list[tuple[Cell, ...]]:
    return list(zip(*block.rows, strict=True)) if block.rows else [()] * len(block.columns)


def _text(cell: Cell) -> str:
    return _drawn(cell) if isinstance(cell, Bar) else str(cell)


def _drawn(cell: Bar) -> str:
    return range_bar(cell.low, cell.high, BAR_WIDTH) if cell.high > cell.low else bar(cell.low, BAR_WIDTH)


def _grid(block: Table, widths: Sequence[int]) -> Iterator[Words]:
    if any(column.head for column in block.columns):
        yield from _row([soft(column.head) for column in block.columns], block.columns, widths)
    above, section = None, ""
    for number, row in enumerate(block.rows):
        cells = list(row)
        if block.sections:
            front = block.sections[number]
            if front and front != section:
                yield words((front, "strong"))
            section = front
            cells[0] = f"  {str(row[0])[len(front) :]}" if front else row[0]
        if block.merge and above == row[0]:
            cells[0] = ""
        above = row[0]
        yield from _row(cells, block.columns, widths)


def _row(cells: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int]) -> Iterator[Words]:
    laid = [list(_cell(cell, width)) for cell, width in zip(cells, widths, strict=True)]
    for number in range(max(map(len, laid))):
        runs: list[tuple[str, Tone]] = []
        for lines, column, width in zip(laid, columns, widths, strict=True):
            line = lines[number] if number < len(lines) else words("")
            pad = " " * (width - cell_len(str(line)))
            runs += [(pad, ""), *line.runs] if column.align == "right" else [*line.runs, (pad, "")]
            runs.append((_gap(column, width), ""))
        yield _trimmed([run for run in runs if run[0]])


def _gap(column: Column, width: int) -> str:
    """A mark stands close to what it marks."""
    return " " if width <= 1 and not column.head else "  "


def _cell(cell: Cell, width: int) -> Iterator[Words]:
    yield from _wrapped(words((_drawn(cell), "bar")) if isinstance(cell, Bar) else cell, width)


def _records(block: Table, width: int) -> Iterator[Words]:
    """One row after the other as ``head value`` statements; what goes on is indented."""
    for row in block.rows:
        said: list[Line] = []
        lead: tuple[tuple[str, Tone], ...] = ()
        for cell, column in zip(row, block.columns, strict=True):
            if isinstance(cell, Bar) or not str(cell):
                continue
            named = said or column.align == "right"  # the name of a row says itself what it is
            runs = (*(((f"{column.head} ", "soft"),) if named and column.head else ()), *_runs(cell))
            if not lead and not said and len(str(cell)) == 1 and not column.head:
                lead = (*runs, (" ", ""))  # a mark stands before the name
                continue
            said.append(Words((*lead, *runs)))
            lead = ()
        for number, line in enumerate(_parts(Parts(tuple(said)), max(width - 2, _MIN_WRAPPED))):
            yield Words((("  ", ""), *line.runs)) if number else line


def _abreast(block: Table, width: int) -> Iterator[Words]:
    """As many columns beside the first as there is room for, and the others below."""
    first, *others = range(len(block.columns))
    shown: list[int] = []
    groups = [shown]
    for place in others:
        if shown and not _widths(_only(block, [first, *shown, place]), width):
            shown = []
            groups.append(shown)
        shown.append(place)
    for group in groups:
        part = _only(block, [first, *group])
        widths = _widths(part, width)
        yield from _grid(part, widths) if widths else _records(part, width)


def _only(block: Table, places: Sequence[int]) -> Table:
    return replace(
        block,
        columns=tuple(block.columns[place] for place in places),
        rows=tuple(tuple(row[place] for place in places) for row in block.rows),
    )


def _plot(plot: Plot, width: int | None) -> Iterator[Words]:
    """Values from the lowest at the bottom to the highest at the top, a tick at every third row."""
    values = [value for _, _, series in plot.series for value in series if value]
    values += [level.value for level in plot.levels]
    low, high = math.log10(min(values)), math.log10(max(values))
    count = max(len(series) for _, _, series in plot.series)
    across = min(_PLOT_WIDTH, count, (width or _PLOT_WIDTH) - _TICK_WIDTH)

    def row_of(value: float) -> int:
        share = (math.log10(value) - low) / ((high - low) or 1.0)
        return round((1 - min(max(share, 0.0), 1.0)) * (_PLOT_ROWS - 1))

    def tick(row: int) -> str:
        step = (high - low) * (1 - row / (_PLOT_ROWS - 1))
        return "" if row % 3 else format_tokens_short(round(10 ** (low + step)))

    canvas = [[" "] * across for _ in range(_PLOT_ROWS)]
    ticks = [tick(row) for row in range(_PLOT_ROWS)]
    for level in plot.levels:
        canvas[row_of(level.value)] = [level.stroke] * across
        ticks[row_of(level.value)] = level.label
    for sign, _, series in plot.series:
        for index, value in enumerate(series):
            if value:
                canvas[row_of(value)][index * across // count] = sign
    for label, cells in zip(ticks, canvas, strict=True):
        yield words(f"{label:>{_TICK_WIDTH - 1}} {''.join(cells)}")
    legend = [soft(f"{sign} {name}") for sign, name, _ in reversed(plot.series)]
    legend += [soft(f"{level.stroke} {level.name}") for level in plot.levels]
    for line in _parts(Parts(tuple(legend), gap="  "), None if width is None else width - _TICK_WIDTH):
        yield Words(((" " * _TICK_WIDTH, ""), *line.runs))
