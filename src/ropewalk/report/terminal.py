"""Descriptions on a terminal and in a pipe: coloured lines, plain lines, or records for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ropewalk.report.figures import printable
from ropewalk.report.lines import lay
from ropewalk.report.page import Bar, Block, Fields, Page, Table, Tone, Words

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

STYLES: dict[Tone, str] = {
    "": "", "strong": "bold", "soft": "dim", "good": "bold green", "bad": "bold red", "warn": "yellow",
    "info": "blue", "bar": "cyan", "cache": "magenta", "other": "yellow", "faint": "dim",
}  # fmt: skip


def plain(block: Block, width: int | None = None) -> str:
    """The page as text of a width; None is as wide as it takes."""
    return "".join(f"{printable(str(line)).rstrip()}\n" for line in lay(block, width))


def coloured(block: Block, width: int) -> Iterator[Text]:
    """The lines as rich shows them."""
    from rich.text import Text

    for line in lay(block, width):
        yield Text.assemble(*((printable(text), STYLES[tone]) for text, tone in line.runs))


class Shown:
    """A description as a renderable of rich, for what is drawn again and again."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from coloured(self.block, options.max_width)


def piped(block: Block) -> str:
    """What a pipe gets: nothing wrapped, each row of a table one record; of a list nothing but these."""
    if isinstance(block, Page) and block.is_list:
        return "".join(f"{record}\n" for record in records(block))
    return plain(_tabbed(block))


def _tabbed(block: Block) -> Block:
    """The description with each table as lines that hold a record."""
    match block:
        case Table():
            return Page((*records(block), *block.notes))
        case Fields():
            return replace(block, rows=tuple((label, _tabbed(content)) for label, content in block.rows))
        case Page():
            return replace(block, blocks=tuple(map(_tabbed, block.blocks)))
        case _:
            return block


def records(block: Block) -> Iterator[str]:
    """Each row of the description's tables as one line, its cells apart by tabs, the heads first."""
    match block:
        case Page():
            for each in block.blocks:
                yield from records(each)
        case Fields():
            for _, content in block.rows:
                yield from records(content)
        case Table():
            shown = [place for place, _ in enumerate(block.columns) if not _is_drawn(block, place)]
            if any(block.columns[place].head for place in shown):
                yield "\t".join(block.columns[place].head for place in shown)
            for row in block.rows:
                yield "\t".join(_field(row[place]) for place in shown)
        case _:
            pass


def _is_drawn(block: Table, place: int) -> bool:
    return any(isinstance(row[place], Bar) for row in block.rows)


def _field(cell: object) -> str:
    return " ".join(printable(str(cell)).split()) if isinstance(cell, str | Words) else ""
