"""``ropewalk rope``: how positions turn, and what a longer context does to that."""

from __future__ import annotations

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, checkpoint_argument, json_option, option
from ropewalk.cli.params import ENGINES, TOKENS
from ropewalk.engines import EngineName
from ropewalk.findings import has_error


@click.command(
    "rope",
    cls=Command,
    examples="""
        ropewalk rope ./Qwen3-8B
        ropewalk rope ./Qwen3-8B --context 128k --pairs
        ropewalk rope model.gguf --context 64k --json | jq '.pairs[40].ratio'
    """,
)
@checkpoint_argument
@option("--context", "context_len", type=TOKENS, help="Tokens per sequence.  [default: what was trained]")
@option("--engine", type=click.Choice(ENGINES), help="Whose arithmetic.")
@option("--pairs", "all_pairs", is_flag=True, help="List every pair of the head, not a few.")
@json_option
def command(
    checkpoint: str, context_len: int | None, engine: EngineName | None, all_pairs: bool, as_json: bool
) -> int:
    """Show the rotation rate and wavelength of each pair, and what scaling does to it.

    Exit status 1 where the context is refused.
    """
    with output.waiting(f"reading the headers of {checkpoint}"):
        table = core.rope(checkpoint, context_len=context_len, engine=engine)
    if as_json:
        output.document(table)
    else:
        from ropewalk.report.rope import rope_page

        output.page(rope_page(table, all_pairs=all_pairs))
    return int(table.decision.decision == "refuse" or has_error(table.findings))
