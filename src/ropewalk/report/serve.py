"""The page of ``ropewalk serve`` once the server answers: plan beside reality, and where it listens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ropewalk.planner.records import Plan
from ropewalk.report.figures import amount, common_unit, span
from ropewalk.report.nodes import nodes_block, shares_block
from ropewalk.report.page import (
    Block,
    Page,
    Table,
    fields,
    findings_block,
    mark,
    parts,
    soft,
    stack,
    table,
    words,
)
from ropewalk.report.plan import describe_rope, term_name
from ropewalk.serving.preflight import PreflightItem
from ropewalk.serving.server_report import ServerReport
from ropewalk.serving.service import Service
from ropewalk.serving.verify import Verification
from ropewalk.units import format_seconds, format_tokens

_CONFIRMED = "confirmed by the engine before the start"


def serve_page(service: Service, *, stop: str) -> Page:
    """What was planned, what the server itself reports, how to reach it, and by what it is stopped."""
    plan, server = service.plan, service.server
    confirmed = plan.launch is not None and plan.launch.confirmed_by == "engine"
    memory = _memory(plan, server.report)
    rows: list[tuple[str, Block]] = [
        ("model", parts(server.report.model_name, describe_rope(plan.rope))),
        ("context", parts(each=_context(plan, server.report))),
        ("memory", stack(memory, _CONFIRMED) if confirmed else memory),
        *([("devices", shares_block(plan, server.report))] if plan.request.rpc_servers else []),
        *([("nodes", nodes_block(server))] if server.launch.nodes else []),
        ("checked", checks_block(service.checks)),
        ("verified", parts(each=list(_verified(service.verification)) or ["not asked for: --verify"])),
        ("findings", findings_block(service.findings)),
        ("log", str(server.log_path)),
        ("stop", stop),
    ]
    ready = f"      {service.openai_url} after {format_seconds(server.ready_seconds)}"
    return Page((fields(rows),), title=words(("READY", "good"), ready))


def checks_block(checks: Sequence[PreflightItem]) -> Table:
    """One line per check that was made before the start; ``?`` where it could not be."""
    return table("| |*", ((mark(item.ok, "?"), item.name, soft(item.message)) for item in checks))


def _context(plan: Plan, report: ServerReport) -> Iterator[str]:
    yield f"{format_tokens(plan.context_len)} tokens planned"
    yield f"{format_tokens(report.context_len)} reported"
    if report.num_sequences is not None:
        yield f"{report.num_sequences} of {plan.request.num_sequences} sequences"
    if report.cells is not None:
        yield f"{format_tokens(report.cells)} cells"


def _memory(plan: Plan, report: ServerReport) -> Table:
    """Each planned term with its range, and what the engine printed of it."""
    unit = common_unit(term.high_bytes for term in plan.memory.terms)
    rows = []
    for term in plan.memory.terms:
        printed = report.printed(term.name)
        shown = amount(printed.bytes if printed else None, unit)
        rows.append((term_name(term.name), span(term.low_bytes, term.high_bytes, unit), shown))
    return table("| >planned | >printed by the engine", rows)


def _verified(seen: Verification) -> Iterator[str]:
    if seen.filled_tokens is not None and seen.fill_seconds is not None:
        yield f"{format_tokens(seen.filled_tokens)} tokens filled in {format_seconds(seen.fill_seconds)}"
    if seen.rope_difference is not None:
        yield f"scaling is active (log-probability changed by {seen.rope_difference:.2g})"
