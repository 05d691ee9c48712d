"""``ropewalk receipts``: plans beside logs as numbers alone, to be shared."""

from __future__ import annotations

from pathlib import Path

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, option
from ropewalk.cli.params import FILE


@click.command(
    "receipts",
    cls=Command,
    examples="""
        ropewalk receipts vllm.log --checkpoint Qwen/Qwen3-8B > receipts.json
        ropewalk receipts server.log --command 'llama-server -m qwen3-8b.gguf -c 131072 -np 4'
    """,
)
@click.argument("logfiles", type=FILE, nargs=-1, required=True, metavar="LOGFILE...")
@option("--checkpoint", metavar="CHECKPOINT", help="The model, where the command names one that is not here.")
@option(
    "--command", "line", metavar="COMMAND", help="How the server was started, where the log does not tell."
)
def command(logfiles: tuple[Path, ...], checkpoint: str | None, line: str | None) -> None:
    """Write what was planned and what was printed of servers started elsewhere, as one JSON document.

    Numbers only: no name, path, host or word of a command is in it. Nothing is sent anywhere.
    """
    output.document(core.receipts(logfiles, command=line, checkpoint=checkpoint))
