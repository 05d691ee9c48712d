"""``ropewalk stop``: end a server that was left running."""

from __future__ import annotations

import click

from ropewalk.cli.command import Command
from ropewalk.serving.detached import find_detached, stop_detached


@click.command(
    "stop",
    cls=Command,
    examples="""
        ropewalk stop
        ropewalk stop 8000
    """,
)
@click.argument("server", required=False)
def command(server: str | None) -> None:
    """Stop a server and all of its processes.

    SERVER is its name, port or process id; without one, the only server there is.
    """
    found = find_detached(server)
    stop_detached(found)
    click.echo(f"stopped {found.name} on port {found.port}", err=True)
