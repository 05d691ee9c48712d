"""``ropewalk choose``: which file, engine, cache type and placement hold a length on a device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, json_option, option
from ropewalk.cli.params import COUNT, SERVED, SIZE, longest_option
from ropewalk.cli.runs import store_option
from ropewalk.engines import EngineName

if TYPE_CHECKING:
    from ropewalk.planner.choice import Choice

_DEVICE, _CANDIDATES, _MEASURING = "The device", "Candidates", "Measuring"


@click.command(
    "choose",
    cls=Command,
    examples="""
        ropewalk choose ./models --context 128k --gpu "RTX 4090"
        ropewalk choose unsloth/Qwen3-8B-GGUF --context max --memory 12GiB --explain
        ropewalk choose ./Qwen3-8B ./Qwen3-8B-Q8_0.gguf --context 32k --gpu L4 --json
    """,
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@longest_option
@option("--sequences", "num_sequences", type=COUNT, metavar="N", help="Sequences held at once.  [default: 1]")
@option(
    "--gpu", metavar="[Nx]NAME", group=_DEVICE,
    help="The card: 'RTX 4090', 2xH100-80GB. Without it and --memory: this machine.",
)  # fmt: skip
@option(
    "--memory", "memory_bytes", type=SIZE, metavar="SIZE", group=_DEVICE,
    help="Budget per device instead of a card's.",
)  # fmt: skip
@option("--device", metavar="D", group=_DEVICE, help="cpu, cuda:0, ...  [default: a GPU where one is named]")
@option(
    "--engine", "engines", type=click.Choice(SERVED), multiple=True, group=_CANDIDATES,
    help="Only this one; may be repeated.  [default: the first that serves each format]",
)  # fmt: skip
@option(
    "--cache-type",
    metavar="T",
    group=_CANDIDATES,
    help="Only this KV cache type.  [default: each of the engine]",
)
@option(
    "--allow-unvalidated", is_flag=True, default=None, group=_CANDIDATES,
    help="Go past what the publishers of the models describe.",
)  # fmt: skip
@option(
    "--explain", is_flag=True,
    help="Show every candidate, why it is no answer, and what each step down from the first would save.",
)  # fmt: skip
@option(
    "--measure",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    group=_MEASURING,
    help="Serve and measure the first N here; the ranking follows what was seen. Asked again, it goes on.",
)  # fmt: skip
@option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), metavar="M", group=_MEASURING,
    help="For each of them about so many minutes.",
)  # fmt: skip
@store_option
@json_option
def command(
    sources: tuple[str, ...],
    context_len: int,
    engines: tuple[EngineName, ...],
    cache_type: str | None,
    measure: int,
    minutes: float | None,
    explain: bool,
    store: Path | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Plan every candidate and rank them: what works, reaches furthest, loses least, runs fastest.

    SOURCE is a checkpoint, or a folder or repository with several; only headers are read. Exit status 1 where
    none holds the length.
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if cache_type is not None:
        given |= {"cache_type_k": cache_type, "cache_type_v": cache_type}
    given |= {"context_len": context_len, "engines": engines, "store": store}
    if measure:
        choice = _measured(sources, measure, minutes, given)
    else:
        with output.progress() as told:
            choice = core.choose(sources, on_progress=told, **given)
    if as_json:
        output.document(choice)
    else:
        from ropewalk.report.choose import choice_page

        output.page(choice_page(choice, explain=explain))
    return 0 if choice.positive else 1


def _measured(sources: tuple[str, ...], count: int, minutes: float | None, given: dict[str, Any]) -> Choice:
    """The choice after its first answers were measured, with their progress on standard error."""
    from ropewalk.measuring.settings import MeasureSettings
    from ropewalk.report.progress import MeasureProgress

    settings = MeasureSettings(minutes=minutes)
    with MeasureProgress(output.console(stderr=True)) as progress:
        return core.choose(sources, measure=count, settings=settings, on_event=progress, **given)
