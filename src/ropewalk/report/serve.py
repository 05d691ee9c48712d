"""The page of ``ropewalk serve`` once the server answers: plan beside reality, and where it listens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ropewalk.planner.records import Plan
from ropewalk.report.layout import Parts, columns, common_unit, findings_block, in_unit, labelled
from ropewalk.report.nodes import nodes_block, shares_block
from ropewalk.report.plan import describe_rope, term_name
from ropewalk.serving.preflight import PreflightItem
from ropewalk.serving.server_report import ServerReport
from ropewalk.serving.service import Service
from ropewalk.serving.verify import Verification
from ropewalk.units import format_seconds, format_tokens

_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "dim")}
_CONFIRMED = "confirmed by the engine before the start"
Row = tuple[str, RenderableType]


def serve_page(service: Service, *, stop: str) -> RenderableType:
    """What was planned, what the server itself reports, how to reach it, and by what it is stopped."""
    plan, server = service.plan, service.server
    ready = f"      {service.openai_url} after {format_seconds(server.ready_seconds)}"
    rows: list[Row] = [
        ("model", Parts([server.report.model_name, describe_rope(plan.rope)])),
        ("context", Parts(list(_context(plan, server.report)))),
        ("memory", _memory(plan, server.report)),
        *([("", _CONFIRMED)] if plan.launch and plan.launch.confirmed_by == "engine" else []),
        *([("devices", shares_block(plan, server.report))] if plan.request.rpc_servers else []),
        *([("nodes", nodes_block(server))] if server.spec.nodes else []),
        ("checked", checks_block(service.checks)),
        ("verified", Parts(list(_verified(service.verification)) or ["not asked for: --verify"])),
        ("findings", findings_block(service.findings)),
        ("log", str(server.log_path)),
        ("stop", stop),
    ]
    return Group(Text.assemble(("READY", "bold green"), ready), labelled(rows))


def checks_block(checks: Sequence[PreflightItem]) -> RenderableType:
    """One line per check that was made before the start; ``?`` where it could not be."""
    table = columns("left", "left", "left")
    for item in checks:
        mark, style = _MARKS[item.ok]
        table.add_row(Text(mark, style=style), item.name, Text(item.message, style="dim"))
    return table


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


def _verified(seen: Verification) -> Iterator[str]:
    if seen.filled_tokens is not None and seen.fill_seconds is not None:
        yield f"{format_tokens(seen.filled_tokens)} tokens filled in {format_seconds(seen.fill_seconds)}"
    if seen.rope_difference is not None:
        yield f"answers differ from the unscaled model's by {seen.rope_difference:.2g} in log-probability"
