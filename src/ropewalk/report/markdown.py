"""Descriptions as Markdown, and a measurement as a piece of it for an issue or a model card."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from ropewalk.measuring.records import Measurement
from ropewalk.report.command import fold
from ropewalk.report.figures import plural, short_name
from ropewalk.report.grid import heatmaps
from ropewalk.report.measurement import recall_grid
from ropewalk.report.page import Bar, Block, Cell, Fields, Page, Parts, Plot, Table, Verbatim, Words
from ropewalk.units import format_bytes, format_tokens

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|!])")


def markdown(block: Block) -> Iterator[str]:
    """The lines of a description: labels bold, tables as tables, what is to be pasted fenced."""
    match block:
        case str() | Words():
            yield _cell(block)
        case Parts():
            yield " · ".join(map(_cell, block.parts))
        case Table():
            yield from _table(block)
        case Verbatim():
            yield from _fenced(block.text)
        case Plot():
            pass
        case Fields():
            for label, content in block.rows:
                yield from ("", f"**{escaped(label)}**", "", *markdown(content))
        case Page():
            if block.title is not None:
                yield from (_cell(block.title), "")
            for each in block.blocks:
                yield from markdown(each)


def _fenced(text: str) -> Iterator[str]:
    """A block of code that nothing in it can end: a path may hold line breaks and backticks."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}\n{text}\n{fence}"


def measurement_markdown(measurement: Measurement) -> str:
    """Verdict, a table of recall per task, and how to repeat it."""
    return "\n".join(_lines(measurement)) + "\n"


def _lines(measurement: Measurement) -> Iterator[str]:
    name = escaped(short_name(measurement.checkpoint))
    yield f"### Recall of {name} at {format_tokens(measurement.target_len)} tokens"
    if measurement.comparison:
        yield from ("", f"**{escaped(measurement.comparison.verdict)}**")
    for heatmap in heatmaps(measurement):
        yield from ("", *markdown(recall_grid(heatmap)))
    machine = measurement.machine
    cores = plural(machine.cores, "core")
    where = escaped(f"{machine.cpu}, {cores}, {format_bytes(machine.memory_bytes)}")
    yield from ("", f"{where}; run `{measurement.run_id}`, {measurement.created}.")
    for arm in measurement.arms:
        if arm.launch:
            engine = f"{arm.launch.engine} {arm.launch.engine_version or ''}".rstrip()
            yield f"\n{escaped(f'{arm.label}, {engine}')}"
            yield from markdown(Verbatim(fold(arm.launch.command, width=100)))


def _table(table: Table) -> Iterator[str]:
    yield _row([escaped(column.head) for column in table.columns])
    yield _row(["---:" if column.align == "right" else ":---" for column in table.columns])
    for row in table.rows:
        yield _row([_cell(cell) for cell in row])
    for note in table.notes:
        yield from ("", _cell(note))


def _cell(cell: Cell) -> str:
    """Marks as code, so that they stand under each other; what stands out is bold."""
    if isinstance(cell, Bar):
        return ""
    if isinstance(cell, str):
        return escaped(cell)
    said = []
    for tone, runs in groupby(
        cell.runs, key=lambda run: run[1] if run[1] in ("", "soft", "strong") else "mark"
    ):
        text = "".join(text for text, _ in runs)
        inside = text.strip()
        blank = text[len(text.rstrip()) :]
        form = {"strong": f"**{escaped(inside)}**", "mark": f"`{inside}`"}.get(tone, escaped(inside))
        said.append(f"{form}{blank}" if inside else text)
    return "".join(said)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(value: str) -> str:
    """Text without a meaning to Markdown, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(value.split()))
