"""``ropewalk compare``: two checkpoints, plans, runs or logs, only what differs."""

from __future__ import annotations

from pathlib import Path

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, json_option
from ropewalk.cli.runs import store_option


@click.command(
    "compare",
    cls=Command,
    examples="""
        ropewalk compare ./Qwen3-8B ./Qwen3-8B-finetuned
        ropewalk compare model-Q8_0.gguf model-Q4_K_M.gguf --json
        ropewalk compare plan.json server.log
        ropewalk compare 20261201-0912-3f2a 20261201-1015-77c0
    """,
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@store_option
@json_option
def command(a: str, b: str, store: Path | None, as_json: bool) -> int:
    """Show what differs between two checkpoints, plans (--json in a file), stored runs or server logs.

    A fine-tune against its base, a requantisation against its source: which tensors changed type, which
    facts, which terms. A plan and a log are compared in what both tell. Exit status 1 where something
    differs.
    """
    with output.waiting("reading both"):
        found = core.compare(a, b, store=store)
    if as_json:
        output.document(found)
    else:
        from ropewalk.report.differences import differences_page

        output.page(differences_page(found))
    return 0 if found.positive else 1
