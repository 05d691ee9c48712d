"""Commands of the contract that this version does not have yet: each says so and exits with 2."""

from __future__ import annotations

import click

from ropewalk.cli.command import Command
from ropewalk.errors import NotBuiltError


def announced(name: str) -> click.Command:
    """A command that takes any arguments and refuses."""

    def refuse(arguments: tuple[str, ...]) -> None:
        raise NotBuiltError(f"`ropewalk {name}` is not built in this version", where={"command": name})

    return Command(
        name,
        callback=refuse,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        help="Not built in this version.",
        context_settings={"ignore_unknown_options": True},
    )
