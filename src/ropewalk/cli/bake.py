"""``ropewalk bake``: a rope scaling written into the header of a copy of a GGUF file."""

from __future__ import annotations

from pathlib import Path

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, checkpoint_argument, json_option, option
from ropewalk.cli.params import NEW_FILE, context_option


@click.command(
    "bake",
    cls=Command,
    examples="""
        ropewalk bake model.gguf --context 64k --output model-64k.gguf
        ropewalk bake model.gguf --context 64k --arm yarn:8 --output model-64k.gguf
    """,
)
@checkpoint_argument
@context_option
@option("--output", "output_path", type=NEW_FILE, required=True, help="The copy; one that is there is kept.")
@option("--arm", metavar="ARM", default="auto", help="auto, or yarn:F for this factor.  [default: auto]")
@option("--allow-unvalidated", is_flag=True, help="Go past what the publisher of the model describes.")
@json_option
def command(
    checkpoint: str, context_len: int, output_path: Path, arm: str, allow_unvalidated: bool, as_json: bool
) -> int:
    """Write YaRN into the header of a copy of a GGUF file, for engines that take no rope flags (Ollama).

    The original is only read, and the copy is read back and compared. Every prompt is then scaled, short ones
    too: keep the original for those.
    """
    with output.waiting(f"copying {checkpoint}"):
        baked = core.bake(
            checkpoint, output_path, context_len=context_len, arm=arm, allow_unvalidated=allow_unvalidated
        )
    if as_json:
        output.document(baked)
    else:
        for key, value in baked.keys.items():
            output.write(f"{key} = {value}\n")
        click.echo(f"wrote {baked.output}", err=True)
    return 0
