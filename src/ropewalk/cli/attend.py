"""``ropewalk attend``: one head's attention by hand, or the two kernels timed."""

from __future__ import annotations

from pathlib import Path

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, checkpoint_argument, json_option, option
from ropewalk.cli.params import NEW_FILE, SIZE, TOKENS, ListType
from ropewalk.errors import UsageError

_HEAD, _KERNELS = "One head", "Kernels"
_UP_TO = 4096


@click.command(
    "attend",
    cls=Command,
    examples="""
        ropewalk attend ./Qwen3-0.6B --prompt "The cat sat on the mat." --layer 3 --head 5
        ropewalk attend ./Qwen3-0.6B --tokens 785,8251,7578 --html head.html
        ropewalk attend ./Qwen3-8B --kernels --up-to 8k
    """,
)
@checkpoint_argument
@option("--prompt", metavar="TEXT", group=_HEAD, help="A short text, by the checkpoint's own tokenizer.")
@option(
    "--tokens", type=ListType(click.IntRange(min=0)), metavar="IDS", group=_HEAD, help="Token ids instead."
)
@option("--layer", type=click.IntRange(min=0), metavar="L", group=_HEAD, help="Counted from 0.  [default: 0]")
@option(
    "--head",
    type=click.IntRange(min=0),
    metavar="H",
    group=_HEAD,
    help="Query head, counted from 0.  [default: 0]",
)
@option(
    "--logits/--no-logits",
    default=True,
    group=_HEAD,
    help="Run all blocks to compare logits, or stop after the layer.  [default: logits]",
)
@option(
    "--memory",
    "memory_bytes",
    type=SIZE,
    group=_HEAD,
    help="What the squares of scores may take.  [default: what is free]",
)
@option("--html", type=NEW_FILE, group=_HEAD, help="Write the pictures as one HTML file.")
@option(
    "--kernels",
    is_flag=True,
    group=_KERNELS,
    help="Time eager against sdpa with the heads of the checkpoint; no weight is read.",
)
@option("--up-to", type=TOKENS, group=_KERNELS, help=f"Longest length.  [default: {_UP_TO}]")
@option("--device", metavar="D", group=_KERNELS, help="cpu, cuda, ...  [default: a GPU where there is one]")
@json_option
def command(
    checkpoint: str,
    prompt: str | None,
    tokens: tuple[int, ...] | None,
    layer: int | None,
    head: int | None,
    logits: bool,
    memory_bytes: int | None,
    html: Path | None,
    kernels: bool,
    up_to: int | None,
    device: str | None,
    as_json: bool,
) -> int:
    """Show the scores, the mask and the weights of one head for a short prompt.

    They are computed by hand from the model's own queries and keys after their norms and rotation, and held
    against the eager implementation and torch's sdpa. Exit status 1 where they disagree, a check fails, or
    the squares of the prompt do not fit. CHECKPOINT is a safetensors folder on this machine; --kernels takes
    any.
    """
    if kernels:
        if prompt is not None or tokens or layer is not None or head is not None or html:
            raise UsageError(
                "--kernels times attention as such: give no prompt, layer, head or --html with it"
            )
        return _kernels(checkpoint, up_to or _UP_TO, device, as_json)
    if (prompt is None) == (not tokens):
        raise UsageError("give --prompt or --tokens, or --kernels")
    if up_to is not None or device is not None:
        raise UsageError("--up-to and --device belong to --kernels")
    with output.waiting("computing one head's attention"):
        seen = core.attend(
            checkpoint, prompt=prompt, tokens=tokens or (), layer=layer or 0, head=head or 0, logits=logits,
            memory_bytes=memory_bytes,
        )  # fmt: skip
    if html:
        from ropewalk.report.attention_html import attention_html

        output.write_file(html, attention_html(seen))
    if as_json:
        output.document(seen, compact=True)
    else:
        from ropewalk.report.attention import attention_page

        output.page(attention_page(seen))
    return int(not seen.ok)


def _kernels(checkpoint: str, up_to: int, device: str | None, as_json: bool) -> int:
    with output.waiting("timing the kernels"):
        timed = core.time_kernels(checkpoint, up_to=up_to, device=device)
    if as_json:
        output.document(timed)
    else:
        from ropewalk.report.attention import kernels_page

        output.page(kernels_page(timed))
    return 0
