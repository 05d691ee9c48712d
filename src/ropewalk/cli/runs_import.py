"""``ropewalk runs import``: the log of a server started elsewhere, beside what its command resolves to."""

from __future__ import annotations

from pathlib import Path

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, json_option, option
from ropewalk.cli.params import FILE


@click.command(
    "import",
    cls=Command,
    examples="""
        ropewalk runs import vllm.log --checkpoint Qwen/Qwen3-8B
        ropewalk runs import server.log --command 'llama-server -m qwen3-8b.gguf -c 131072 -np 4'
    """,
)
@click.argument("logfile", type=FILE)
@option("--checkpoint", metavar="CHECKPOINT", help="The model, where the command names one that is not here.")
@option(
    "--command", "line", metavar="COMMAND", help="How the server was started, where the log does not tell."
)
@json_option
def command(logfile: Path, checkpoint: str | None, line: str | None, as_json: bool) -> int:
    """Show what a vllm or llama-server log printed beside what its command had to resolve to.

    Nothing is stored and nothing started. Exit status 1 where the two disagree, or the server gave up.
    """
    with output.waiting(f"reading {logfile}"):
        report = core.read_log(logfile, command=line, checkpoint=checkpoint)
    if as_json:
        output.document(report)
    else:
        from ropewalk.report.log_report import logreport_page

        output.page(logreport_page(report))
    return 0 if report.ok else 1
