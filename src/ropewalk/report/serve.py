"""The page of ``ropewalk serve`` once the server answers: plan beside reality, and where it listens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from ropewalk.findings import Finding
from ropewalk.planner.records import Plan
from ropewalk.report.layout import Parts, columns, common_unit, findings_block, in_unit, labelled
from ropewalk.report.plan import rope_words, term_name
from ropewalk.serving.report import ServerReport
from ropewalk.units import format_seconds, format_tokens

Row = tuple[str, RenderableType]


def serve_page(
    plan: Plan,
    report: ServerReport,
    *,
    base_url: str,
    ready_seconds: float,
    log_path: Path,
    stop: str,
    findings: tuple[Finding, ...] = (),
) -> RenderableType:
    """What was planned, what the server itself reports, and how to reach and to stop it."""
    heading = Text.assemble(
        ("READY", "bold green"), f"      {base_url}/v1 after {format_seconds(ready_seconds)}"
    )
    rows: list[Row] = [
        ("model", Parts([report.model_name, rope_words(plan.rope)])),
        ("context", Parts(list(_context(plan, report)))),
        ("memory", _memory(plan, report)),
        ("findings", findings_block((*plan.findings, *findings))),
        ("log", str(log_path)),
        ("stop", stop),
    ]
    return Group(heading, labelled(rows))


def _context(plan: Plan, report: ServerReport) -> Iterator[str]:
    yield f"{format_tokens(plan.context_len)} tokens planned"
    yield f"{format_tokens(report.context_len)} reported"
    if report.num_sequences is not None:
        yield f"{report.num_sequences} of {plan.request.num_sequences} sequences"
    if report.cells is not None:
        yield f"{format_tokens(report.cells)} cells"


def _memory(plan: Plan, report: ServerReport) -> RenderableType:
    """Each planned term with its range, and what the engine printed of it."""
    terms = plan.memory.terms
    unit = common_unit(term.high_bytes for term in terms)
    table = columns("left", "right", "right")
    table.add_row(*(Text(head, style="dim") for head in (unit, "planned", "printed by the engine")))
    for term in terms:
        ends = dict.fromkeys((in_unit(term.low_bytes, unit), in_unit(term.high_bytes, unit)))
        printed = report.printed(term.name)
        amount = "–" if printed is None else in_unit(printed.bytes, unit)
        table.add_row(term_name(term.name), " – ".join(ends), amount)
    return table
