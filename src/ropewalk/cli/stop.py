"""``ropewalk stop``: end a server that was left running."""

from __future__ import annotations

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, option


def _running(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For the shell to complete."""
    return [one.name for one in core.running_servers() if one.name.startswith(incomplete)]


@click.command(
    "stop",
    cls=Command,
    examples="""
        ropewalk stop
        ropewalk stop 8000
        ropewalk stop --leftovers
    """,
)
@click.argument("server", required=False, shell_complete=_running)
@option("--leftovers", is_flag=True, help="Clear what a start left behind that was killed.")
def command(server: str | None, leftovers: bool) -> None:
    """Stop a server and all of its processes.

    SERVER is its name, port or process id; without one, the only server there is.
    """
    if leftovers:
        _clear()
        return
    found = core.find_server(server)
    with output.waiting(f"stopping {found.name}"):
        core.stop_server(found)
    click.echo(f"stopped {found.name} on port {found.port}", err=True)


def _clear() -> None:
    found = core.clear_leftovers()
    names = [*(f"process {one.pid} ({one.name})" for one in found.processes), *map(str, found.copies)]
    click.echo(f"cleared {', '.join(names)}" if names else "nothing was left behind", err=True)
