"""``ropewalk stop``: end a server that was left running."""

from __future__ import annotations

import click

from ropewalk.cli import output
from ropewalk.cli.command import Command
from ropewalk.serving.detached import detached_servers, find_detached, stop_detached


def _running(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For the shell to complete."""
    return [one.name for one in detached_servers() if one.name.startswith(incomplete)]


@click.command(
    "stop",
    cls=Command,
    examples="""
        ropewalk stop
        ropewalk stop 8000
    """,
)
@click.argument("server", required=False, shell_complete=_running)
def command(server: str | None) -> None:
    """Stop a server and all of its processes.

    SERVER is its name, port or process id; without one, the only server there is.
    """
    found = find_detached(server)
    with output.waiting(f"stopping {found.name}"):
        stop_detached(found)
    click.echo(f"stopped {found.name} on port {found.port}", err=True)
