"""The page of ``ropewalk runs import``: a server's log beside what its command comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rich.console import Group, RenderableType
from rich.text import Text

from ropewalk.checking.log_report import LogReport, LogTerm
from ropewalk.report.layout import Parts, columns, common_unit, findings_block, in_unit, labelled
from ropewalk.report.plan import term_name
from ropewalk.units import format_tokens

_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("", "")}
_NAMES = {"num_sequences": "sequences at once", "kv_cells": "tokens in the cache"}
Row = tuple[str, RenderableType]


def logreport_page(report: LogReport) -> RenderableType:
    """The verdict first: whether the server is what its command was planned to be."""
    judged = [term.agrees for term in (*report.lengths, *report.memory) if term.agrees is not None]
    if not report.ok:
        verdict = Text("WRONG", style="bold red")
    elif judged:
        verdict = Text("AS PLANNED", style="bold green")
    else:
        verdict = Text("NOT JUDGED", style="bold")
    return Group(verdict, labelled(_rows(report)))


def _rows(report: LogReport) -> Iterator[Row]:
    yield "engine", f"{report.engine} {report.engine_version or ''}".rstrip()
    if report.command:
        where = {"given": "as given", "log": "as the log tells it"}[report.command_from or "given"]
        yield "command", Parts([" ".join(report.command), where])
    yield "serves", _table(report.lengths, "", format_tokens)
    unit = common_unit(term.printed or term.planned_low or 0 for term in report.memory)
    yield "memory", _table(report.memory, unit, partial(in_unit, unit=unit))
    yield "findings", findings_block(report.findings)


def _table(terms: Sequence[LogTerm], unit: str, shown: Callable[[int], str]) -> RenderableType:
    table = columns("left", "right", "right", "left")
    table.add_row(*(Text(head, style="dim") for head in (unit, "planned", "printed", "")))
    for term in terms:
        ends = (end for end in (term.planned_low, term.planned_high) if end is not None)
        planned = " – ".join(dict.fromkeys(shown(end) for end in ends))
        printed = "–" if term.printed is None else shown(term.printed)
        mark, style = _MARKS[term.agrees]
        table.add_row(
            _NAMES.get(term.name) or term_name(term.name), planned or "–", printed, Text(mark, style=style)
        )
    return table
