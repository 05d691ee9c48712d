"""The bricks of a terminal page: labelled rows, wrapped parts, bars, findings.

A page is a rich renderable made from records; it knows neither the terminal nor where it is printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ropewalk.findings import Finding, by_severity
from ropewalk.units import GIB, format_gib, format_mib

LABEL_WIDTH = 10
BAR_STYLE = "cyan"
SEVERITY_MARKS = {"error": ("✗", "bold red"), "warning": ("!", "yellow"), "info": ("i", "blue")}
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True)
class Parts:
    """Short statements joined by `` · ``; a line breaks between them, never inside."""

    parts: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = ""
        for part in self.parts:
            longer = f"{line} · {part}" if line else part
            if line and cell_len(longer) > options.max_width:
                yield Text(line)
                line = part
            else:
                line = longer
        yield Text(line)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        widths = [cell_len(part) for part in self.parts]
        return Measurement(max(widths, default=0), sum(widths) + 3 * max(0, len(widths) - 1))


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Lines that are to be pasted elsewhere: never wrapped, never cut."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(self.text + "\n")


def labelled(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    """Rows of a bold label and what it says; the text wraps beside the label, not under it."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=LABEL_WIDTH, style="bold", overflow="fold")
    grid.add_column(overflow="fold")
    for label, content in rows:
        grid.add_row(label, content)
    return grid


def columns(*aligned: str) -> Table:
    """A borderless table; each argument is the justification of a column, and only the last one wraps."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for place, justify in enumerate(aligned, start=1):
        table.add_column(
            justify="right" if justify == "right" else "left", overflow="fold", no_wrap=place < len(aligned)
        )
    return table


def bar(share: float, width: int) -> str:
    """``share`` of ``width`` cells in eighths of a cell, at least one eighth for what is not nothing."""
    eighths = max(round(min(share, 1.0) * width * 8), 1 if share > 0 else 0)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def range_bar(low: float, high: float, width: int) -> str:
    """A bar up to the share ``low``, shaded on to ``high``: an estimate with its range."""
    solid = bar(low, width)
    shaded = max(0, round(min(high, 1.0) * width) - cell_len(solid))
    return solid + "▒" * (shaded or (1 if high > low else 0))


def short_name(source: str) -> str:
    """The last part of a path or of a Hub id."""
    return source.rstrip("/").rsplit("/", 1)[-1]


def common_unit(counts: Iterable[int]) -> str:
    """GiB where the largest of a column reaches one, MiB below: one unit per column."""
    return "GiB" if max(counts, default=0) >= GIB else "MiB"


def in_unit(count: int, unit: str) -> str:
    """A byte count in the unit of its column, without the unit's name; what is not nothing never reads 0."""
    text = (format_gib if unit == "GiB" else format_mib)(count).removesuffix(f" {unit}")
    return "<0.01" if count > 0 and text == "0.00" else text


def findings_block(findings: Sequence[Finding]) -> RenderableType:
    """Each finding with its mark and code, errors first; the word ``none`` where there is none."""
    if not findings:
        return Text("none")
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    for finding in by_severity(findings):
        mark, style = SEVERITY_MARKS[finding.severity]
        grid.add_row(Text(mark, style=style), Text.assemble((finding.code, "bold"), "  ", finding.message))
        if fix := finding.where.get("fix"):
            grid.add_row("", Text(f"→ {fix}", style="dim"))
    return grid
