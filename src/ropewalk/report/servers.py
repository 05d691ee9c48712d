"""The list of servers that were left running."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ropewalk.report.layout import columns
from ropewalk.serving.process.detached import DetachedServer
from ropewalk.serving.process.leftovers import Leftovers
from ropewalk.units import format_tokens

_NOTHING = Leftovers()


def servers_page(servers: Sequence[DetachedServer], *, leftovers: Leftovers = _NOTHING) -> RenderableType:
    """One row per server, the oldest first; below, what killed ones left behind."""
    behind = [Text(line, style="yellow") for line in leftovers.lines]
    if not servers:
        return Group(Text("no server was left running; `ropewalk serve --detach` leaves one"), *behind)
    table = columns("left", "left", "right", "right", "left")
    heads = ("server", "address", "tokens", "pid", "started (UTC)")
    table.add_row(*(Text(head, style="dim") for head in heads))
    for server in servers:
        started = server.started[:16].replace("T", " ")
        name, length = Text(server.name, style="bold"), format_tokens(server.context_len)
        table.add_row(name, f"{server.base_url}/v1", length, str(server.pid), started)
    logs = (Text(_more(server), style="dim") for server in servers)
    return Group(table, *logs, *behind)


def _more(server: DetachedServer) -> str:
    nodes = f", nodes at {', '.join(server.nodes)}" if server.nodes else ""
    return f"log of {server.name}: {server.log_path}{nodes}"
