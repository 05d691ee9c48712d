"""Several machines on the pages of a server: its nodes, and what each device holds."""

from __future__ import annotations

from ropewalk.planner.records import Plan
from ropewalk.report.figures import amount, common_unit
from ropewalk.report.page import Table, soft, table
from ropewalk.serving.launcher import RunningServer
from ropewalk.serving.live import Moment
from ropewalk.serving.observed_shares import shares_seen
from ropewalk.serving.server_report import ServerReport
from ropewalk.units import format_gib


def nodes_block(server: RunningServer) -> Table:
    """One line per node: where it is, its process and log here, or that nobody watches it."""
    running = {node.node: node for node in server.nodes}
    rows = []
    for node in server.launch.nodes:
        seen = running.get(node.node)
        process = f"process {seen.pid}" if seen else "started by hand, not watched"
        rows.append((f"node {node.node}", node.address, process, soft(str(seen.log_path) if seen else "")))
    return table("| | |*", rows)


def nodes_line(moment: Moment) -> list[str]:
    """What the processes of each node hold here; a launcher's process holds next to nothing."""
    return [
        f"node {seen.node.node} "
        + ("gone" if seen.memory is None else format_gib(seen.memory.anon_bytes + seen.memory.file_bytes))
        for seen in moment.nodes
    ]


def shares_block(plan: Plan, report: ServerReport) -> Table:
    """Weights and cache of each device, planned and as the engine printed them."""
    seen = shares_seen(plan, report)
    unit = common_unit(size for row in seen for size in (row.share.weights_bytes, row.share.kv_bytes))
    rows = []
    for row in seen:
        printed = (None if term is None else term.bytes for term in (row.kv_cache, row.weights))
        kv, weights = (amount(count, unit) for count in printed)
        planned_kv, planned = (amount(n, unit) for n in (row.share.kv_bytes, row.share.weights_bytes))
        rows.append((row.name, planned_kv, kv, planned, weights))
    return table("| >cache planned | >printed | >weights planned | >printed", rows)
