"""The list of servers that were left running."""

from __future__ import annotations

from collections.abc import Sequence

from ropewalk.report.page import Page, Words, soft, strong, table, words
from ropewalk.serving.process.detached import DetachedServer
from ropewalk.serving.process.leftovers import Leftovers
from ropewalk.units import format_tokens

_NOTHING = Leftovers()


def servers_page(servers: Sequence[DetachedServer], *, leftovers: Leftovers = _NOTHING) -> Page:
    """One row per server, the oldest first; below, what killed ones left behind."""
    behind = [words((line, "warn")) for line in leftovers.lines]
    if not servers:
        return Page(("no server was left running; `ropewalk serve --detach` leaves one", *behind))
    rows = (
        (
            strong(server.name if server.is_here else f"{server.name} on {server.host}"),
            f"{server.base_url}/v1",
            format_tokens(server.context_len),
            str(server.pid),
            server.started[:16].replace("T", " "),
        )
        for server in servers
    )
    listed = table("server | address | >tokens | >PID | started (UTC)", rows)
    return Page((listed, *map(_more, servers), *behind), is_list=True)


def _more(server: DetachedServer) -> Words:
    nodes = f", nodes at {', '.join(server.nodes)}" if server.nodes else ""
    return soft(f"log of {server.name}: {server.log_path}{nodes}")
