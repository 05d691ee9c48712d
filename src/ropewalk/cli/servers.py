"""``ropewalk servers``: what ``serve --detach`` left running."""

from __future__ import annotations

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, json_option


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
    """List the servers that were left running, with their addresses and logs.

    What a start left behind that was killed with everything around it is listed, too.
    """
    servers = core.servers()
    if as_json:
        output.document(servers)
    else:
        from ropewalk.report.servers import servers_page

        output.page(servers_page(servers.servers, leftovers=servers.leftovers))
