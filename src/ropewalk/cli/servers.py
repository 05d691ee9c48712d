"""``ropewalk servers``: what ``serve --detach`` left running."""

from __future__ import annotations

import click

from ropewalk.cli import output
from ropewalk.cli.command import Command, json_option
from ropewalk.documents import ServerList
from ropewalk.serving.detached import detached_servers


@click.command(
    "servers",
    cls=Command,
    examples="""
        ropewalk servers
        ropewalk servers --json | jq -r '.servers[].base_url'
    """,
)
@json_option
def command(as_json: bool) -> None:
    """List the servers that were left running, with their addresses and logs."""
    servers = detached_servers()
    if as_json:
        output.document(ServerList(servers))
    else:
        from ropewalk.report.servers import servers_page

        output.page(servers_page(servers))
