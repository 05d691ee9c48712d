"""What a page says, as plain frozen records; the printers (:mod:`terminal`, :mod:`html`, ...) print them.

A line is text or :class:`Words` with tones; blocks stand one under the other. Nothing here knows a width, a
colour or a file format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ropewalk.findings import Finding, Severity, by_severity

Tone = Literal["", "strong", "soft", "good", "bad", "warn", "info", "bar", "cache", "other", "faint"]
Align = Literal["left", "right"]
SEVERITY: dict[Severity, tuple[str, Tone]] = {
    "error": ("✗", "bad"), "warning": ("!", "warn"), "info": ("i", "info"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Words:
    """Text in runs, each with its tone."""

    runs: tuple[tuple[str, Tone], ...]

    def __str__(self) -> str:
        return "".join(text for text, _ in self.runs)


Line = str | Words


@dataclass(frozen=True, slots=True)
class Bar:
    """Shares of a whole: certain up to ``low``, possible up to ``high``; the figures stand beside it."""

    low: float
    high: float


Cell = Line | Bar


@dataclass(frozen=True, slots=True)
class Parts:
    """Short statements; a line breaks between them. ``gap`` stands between, ``width`` pads each."""

    parts: tuple[Line, ...]
    gap: str = " · "
    width: int = 0


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; only one that ``wraps`` may break its text over several lines."""

    head: str = ""
    align: Align = "left"
    wraps: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under heads, and notes below. Every cell is whole by itself: a figure has its unit.

    Where it is too wide for a screen it becomes one ``head value`` line a row, or with ``abreast`` several
    tables with the first column in each. ``sections`` are the fronts that the first cells of neighbouring
    rows share (a screen writes them once, above), ``merge`` blanks a first cell equal to the one above.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[Line, ...] = ()
    abreast: bool = False
    merge: bool = False
    sections: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Lines to be pasted elsewhere: never wrapped, never cut."""

    text: str


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line of a plot, with the figure that it stands for."""

    value: float
    name: str
    stroke: str
    label: str


@dataclass(frozen=True, slots=True)
class Plot:
    """Series of positive values on a logarithmic axis; None is no point. Later series cover earlier ones."""

    series: tuple[tuple[str, str, tuple[float | None, ...]], ...]  # mark, name, values
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class Fields:
    """Labels and what each says; ``width`` is that of the labels, None for the longest."""

    rows: tuple[tuple[str, Block], ...]
    width: int | None = 10
    tone: Tone = "strong"


@dataclass(frozen=True, slots=True)
class Page:
    """A title and blocks. ``is_list`` means that its tables are what it is about: a pipe gets their rows."""

    blocks: tuple[Block, ...]
    title: Line | None = None
    is_list: bool = False


Block = Line | Parts | Table | Verbatim | Plot | Fields | Page


def words(*runs: str | tuple[str, Tone]) -> Words:
    """``words(("READY", "good"), " after 3 s")``."""
    return Words(tuple((run, "") if isinstance(run, str) else run for run in runs))


def soft(text: str) -> Words:
    """A text printed dim."""
    return Words(((text, "soft"),))


def strong(text: str) -> Words:
    """A text printed bold."""
    return Words(((text, "strong"),))


def mark(ok: bool | None, unknown: str = "") -> Words:
    """✓, ✗, or what is shown where nothing was judged."""
    return Words((("✓", "good") if ok else ("✗", "bad") if ok is False else (unknown, "soft"),))


def parts(*given: Line, each: Iterable[Line] = ()) -> Parts:
    """Statements from arguments and from an iterator."""
    return Parts((*given, *each))


def fields(rows: Iterable[tuple[str, Block]]) -> Fields:
    """Rows of a label and its value."""
    return Fields(tuple(rows))


def stack(*blocks: Block) -> Block:
    """Blocks one under the other."""
    return blocks[0] if len(blocks) == 1 else Page(blocks)


def table(
    heads: str | Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *notes: Line,
    abreast: bool = False,
    merge: bool = False,
    sections: Sequence[str] = (),
) -> Table:
    """A table from a line of heads: ``"KV type | >context | *reason"``; ``>`` is right, ``*`` wraps."""
    named = heads.split("|") if isinstance(heads, str) else heads
    columns = tuple(_column(head.strip()) for head in named)
    return Table(columns, tuple(map(tuple, rows)), notes, abreast, merge, tuple(sections))


def _column(head: str) -> Column:
    return Column(head.lstrip(">*"), "right" if head.startswith(">") else "left", head.startswith("*"))


def findings_block(findings: Sequence[Finding]) -> Block:
    """Each finding with its mark and code, errors first; the word ``none`` where there is none."""
    rows: list[tuple[Line, Line]] = []
    for finding in by_severity(findings):
        rows.append(
            (Words((SEVERITY[finding.severity],)), words((finding.code, "strong"), f"  {finding.message}"))
        )
        if fix := finding.where.get("fix"):
            rows.append(("", soft(f"→ {fix}")))
    return table("|*", rows) if rows else "none"


def lines_of(block: Block) -> Iterator[str]:
    """Every text of a description, table cells one by one: what no printer may lose."""
    match block:
        case str() | Words():
            yield str(block)
        case Parts():
            yield from map(str, block.parts)
        case Table():
            for row in block.rows:
                yield from (str(cell) for cell in row if not isinstance(cell, Bar))
            yield from (column.head for column in block.columns)
            yield from map(str, block.notes)
        case Verbatim():
            yield block.text
        case Plot():
            yield from (level.label for level in block.levels)
        case Fields():
            for label, content in block.rows:
                yield label
                yield from lines_of(content)
        case Page():
            yield str(block.title or "")
            for each in block.blocks:
                yield from lines_of(each)
