"""``ropewalk inspect``: what a checkpoint is."""

from __future__ import annotations

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, checkpoint_argument, json_option, option
from ropewalk.findings import has_error


@click.command(
    "inspect",
    cls=Command,
    examples="""
        ropewalk inspect ./Qwen3-8B
        ropewalk inspect Qwen/Qwen3-8B --json | jq .facts.native_context
        ropewalk inspect model-00001-of-00003.gguf --facts
    """,
)
@checkpoint_argument
@option("--facts", is_flag=True, help="List every fact with its source.")
@json_option
def command(checkpoint: str, facts: bool, as_json: bool) -> int:
    """Say what a checkpoint is, from its headers; no weight is loaded.

    Exit status 1 where a finding is an error: a config that the tensors contradict, a truncated file.
    """
    with output.waiting(f"reading the headers of {checkpoint}"):
        inspection = core.inspect(checkpoint)
    if as_json:
        output.document(inspection)
    elif facts:
        from ropewalk.report.inspection import facts_page

        output.page(facts_page(inspection))
    else:
        from ropewalk.report.inspection import inspection_page

        output.page(inspection_page(inspection, kept=core.cache_summary(inspection)))
    return int(has_error(inspection.findings))
