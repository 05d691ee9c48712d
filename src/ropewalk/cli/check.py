"""``ropewalk check``: is this command line right?"""

from __future__ import annotations

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, json_option, option
from ropewalk.cli.params import SIZE

_STATUS = {True: 0, False: 1, None: 3}


@click.command(
    "check",
    cls=Command,
    context_settings={"allow_interspersed_args": False},
    examples="""
        ropewalk check -- vllm serve Qwen/Qwen3-8B --max-model-len 128k --rope-scaling '{...}'
        ropewalk check --checkpoint ./Qwen3-8B -- llama-server -m qwen3-8b.gguf -c 131072 -np 4
    """,
)
@option("--checkpoint", metavar="CHECKPOINT", help="The model, where the command names one that is not here.")
@option("--engine-version", metavar="V", help="Judge by the rules of this version.")
@option("--gpu", metavar="[Nx]NAME", help="Judge for this card, or so many: H100-80GB, 2xL40S, 'RTX 4090'.")
@option(
    "--memory",
    "memory_bytes",
    type=SIZE,
    metavar="SIZE",
    help="Memory of each device; without it whether the server fits is not judged.",
)
@option(
    "--device",
    type=click.Choice(["auto", "cpu", "gpu"]),
    default="auto",
    help="Judge for this kind of device.  [default: as the command says]",
)
@json_option
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    checkpoint: str | None,
    engine_version: str | None,
    gpu: str | None,
    memory_bytes: int | None,
    device: str,
    words: tuple[str, ...],
    as_json: bool,
) -> int:
    """Judge a vllm or llama-server command line: what it resolves to, what is wrong, how it should read.

    Nothing is started. COMMAND may be one quoted string, as it stands in a script, a systemd unit or a
    compose file. Exit status 1 where an error is found, 3 where none is and the model or the memory could not
    be judged.
    """
    with output.waiting("reading what the command names"):
        result = core.check(
            words,
            checkpoint=checkpoint,
            engine_version=engine_version,
            gpu=gpu,
            memory_bytes=memory_bytes,
            device=device,
        )
    if as_json:
        output.document(result)
    else:
        from ropewalk.report.check import check_page

        output.page(check_page(result))
    return _STATUS[result.ok]
