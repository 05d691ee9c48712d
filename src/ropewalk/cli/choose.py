"""``ropewalk choose``: which file, engine, cache type and placement hold a length on a device."""

from __future__ import annotations

from typing import Any

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, json_option, option
from ropewalk.cli.params import COUNT, SERVED, SIZE, longest_option
from ropewalk.engines import EngineName


@click.command(
    "choose",
    cls=Command,
    examples="""
        ropewalk choose ./models --context 128k --gpu "RTX 4090"
        ropewalk choose unsloth/Qwen3-8B-GGUF --context max --memory 12GiB
        ropewalk choose ./Qwen3-8B ./Qwen3-8B-Q8_0.gguf --context 32k --gpu L4 --json
    """,
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@longest_option
@option("--sequences", "num_sequences", type=COUNT, metavar="N", help="Sequences held at once.  [default: 1]")
@option("--gpu", metavar="NAME", help='The card: "RTX 4090", 2xH100-80GB.')
@option("--memory", "memory_bytes", type=SIZE, metavar="SIZE", help="Budget per device instead of a card's.")
@option("--device", metavar="D", help="cpu, cuda:0, ...  [default: a GPU]")
@option(
    "--engine", "engines", type=click.Choice(SERVED), multiple=True, help="Only this one; may be repeated."
)
@option("--explain", is_flag=True, help="Show every candidate, and why it is no answer.")
@json_option
def command(
    sources: tuple[str, ...],
    context_len: int,
    engines: tuple[EngineName, ...],
    explain: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Plan every candidate and rank them: what works, reaches furthest, loses least, runs fastest.

    SOURCE is a checkpoint, or a folder or repository with several GGUFs. Exit status 1 where none holds the
    length.
    """
    given = {name: value for name, value in options.items() if value is not None}
    with output.waiting("reading headers and planning"):
        choice = core.choose(sources, context_len=context_len, engines=engines, **{"device": "cuda", **given})
    if as_json:
        output.document(choice)
    else:
        from ropewalk.report.choose import choice_page

        output.page(choice_page(choice, explain=explain))
    return 0 if choice.positive else 1
