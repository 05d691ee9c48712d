"""Several machines on the pages of a server: its nodes, and what each device holds."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from ropewalk.planner.records import Plan
from ropewalk.report.layout import columns, common_unit, in_unit
from ropewalk.serving.launcher import RunningServer
from ropewalk.serving.live import Moment
from ropewalk.serving.observed_shares import shares_seen
from ropewalk.serving.server_report import PrintedTerm, ServerReport
from ropewalk.units import format_gib


def nodes_block(server: RunningServer) -> RenderableType:
    """One line per node: where it is, its process and log here, or that nobody watches it."""
    running = {node.node: node for node in server.nodes}
    table = columns("left", "left", "left", "left")
    for node in server.spec.nodes:
        seen = running.get(node.node)
        process = f"process {seen.pid}" if seen else "started by hand, not watched"
        log = str(seen.log_path) if seen else ""
        table.add_row(f"node {node.node}", node.address, process, Text(log, style="dim"))
    return table


def nodes_line(moment: Moment) -> list[str]:
    """What the processes of each node hold here; a launcher's process holds next to nothing."""
    return [
        f"node {seen.node.node} "
        + ("gone" if seen.memory is None else format_gib(seen.memory.anon_bytes + seen.memory.file_bytes))
        for seen in moment.nodes
    ]


def shares_block(plan: Plan, report: ServerReport) -> RenderableType:
    """Weights and cache of each device, planned and as the engine printed them."""
    rows = shares_seen(plan, report)
    unit = common_unit(size for row in rows for size in (row.share.weights_bytes, row.share.kv_bytes))
    table = columns("left", "right", "right", "right", "right")
    heads = (unit, "cache planned", "printed", "weights planned", "printed")
    table.add_row(*(Text(head, style="dim") for head in heads))
    for row in rows:
        table.add_row(
            row.name,
            in_unit(row.share.kv_bytes, unit),
            _printed(row.kv_cache, unit),
            in_unit(row.share.weights_bytes, unit),
            _printed(row.weights, unit),
        )
    return table


def _printed(term: PrintedTerm | None, unit: str) -> str:
    return "–" if term is None else in_unit(term.bytes, unit)
