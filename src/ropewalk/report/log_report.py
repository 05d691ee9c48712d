"""The page of ``ropewalk runs import``: a server's log beside what its command resolves to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ropewalk.checking.log_report import LogReport, LogTerm
from ropewalk.report.figures import amount, common_unit
from ropewalk.report.page import Block, Page, Table, fields, findings_block, mark, parts, table, words
from ropewalk.report.plan import term_name
from ropewalk.units import format_tokens

_NAMES = {"num_sequences": "sequences at once", "kv_cells": "tokens in the cache"}
_ORIGINS = {"given": "as given", "log": "as the log has it"}


def logreport_page(report: LogReport) -> Page:
    """The verdict first: whether the server is what its command was planned to be."""
    judged = any(term.agrees is not None for term in (*report.lengths, *report.memory))
    title = words(("WRONG", "bad"))
    if report.ok:
        title = words(("AS PLANNED", "good") if judged else ("NOT JUDGED", "strong"))
    return Page((fields(_rows(report)),), title=title)


def _rows(report: LogReport) -> Iterator[tuple[str, Block]]:
    yield "engine", f"{report.engine} {report.engine_version or ''}".rstrip()
    if report.command:
        yield "command", parts(" ".join(report.command), _ORIGINS[report.command_from or "given"])
    yield "serves", _table(report.lengths, format_tokens)
    unit = common_unit(term.printed or term.planned_low or 0 for term in report.memory)
    yield "memory", _table(report.memory, partial(amount, unit=unit))
    yield "findings", findings_block(report.findings)


def _table(terms: Sequence[LogTerm], shown: Callable[[int], str]) -> Table:
    rows = []
    for term in terms:
        ends = (end for end in (term.planned_low, term.planned_high) if end is not None)
        planned = " – ".join(dict.fromkeys(shown(end) for end in ends))
        printed = "–" if term.printed is None else shown(term.printed)
        name = _NAMES.get(term.name) or term_name(term.name)
        rows.append((name, planned or "–", printed, mark(term.agrees)))
    return table("| >planned | >printed |", rows)
