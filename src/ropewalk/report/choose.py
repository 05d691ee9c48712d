"""The page of ``ropewalk choose``: the candidates in order, why, and the commands of the first."""

from __future__ import annotations

from collections.abc import Iterator

from ropewalk.planner.choice import Choice, Option, Step
from ropewalk.report.command import fold
from ropewalk.report.figures import short_name
from ropewalk.report.page import (
    Block,
    Line,
    Page,
    Table,
    Verbatim,
    Words,
    fields,
    findings_block,
    soft,
    strong,
    table,
)
from ropewalk.report.predicted import decode_words, prefill_words
from ropewalk.units import format_bytes, format_tokens

_SHOWN, COMMAND_WIDTH = 8, 96
_KINDS = {
    "cache_type": "a smaller cache type", "weights": "smaller weights", "placement": "a block on the host",
    "num_sequences": "a sequence less", "context_len": "half the context",
}  # fmt: skip
_ENDS = {"memory": "memory", "config": "config", "publisher": "publisher", None: ""}


def choice_page(choice: Choice, *, explain: bool = False) -> Page:
    """The best candidates, all with ``explain``; the nearest where none is an answer."""
    return Page(tuple(_blocks(choice, explain=explain)))


def _blocks(choice: Choice, *, explain: bool) -> Iterator[Block]:
    working = [option for option in choice.options if option.works]
    shown = choice.options if explain else (working or choice.options)[:_SHOWN]
    what = "the longest each" if choice.context_len is None else f"{format_tokens(choice.context_len)} tokens"
    count = f"{len(working)} of {len(choice.options)} candidates"
    yield fields([("CHOICE", f"{count} hold {what} on {choice.device}")])
    yield option_table(choice, shown)
    hidden = len(working or choice.options) - len(shown)
    if hidden > 0:
        yield soft(f"and {hidden:,} more: --explain shows every candidate")
    if explain and choice.steps:
        yield fields([("steps", step_table(choice.steps))])
    if choice.findings:
        yield fields([("findings", findings_block(choice.findings))])
    if choice.command:
        yield fields([("command", soft(f"of the first, {short_name(choice.options[0].checkpoint)}"))])
        yield Verbatim(fold(choice.command, width=COMMAND_WIDTH))
    if choice.here:
        yield Verbatim(f"here: {choice.here}")


def option_table(choice: Choice, options: tuple[Option, ...] | list[Option]) -> Table:
    """One candidate a row."""
    several = len({option.engine for option in choice.options}) > 1
    lengths = len({option.context_len for option in choice.options}) > 1
    heads = "checkpoint | " + ("engine | " if several else "") + "cache | placement | "
    heads += ">tokens | " if lengths else ""
    heads += ">reaches | >to spare | >bits | >first token | >tokens/s | *why"
    best = choice.options[0] if choice.positive else None
    rows = (_row(option, first=option is best, several=several, lengths=lengths) for option in options)
    return table(heads, rows)


def _row(option: Option, *, first: bool, several: bool, lengths: bool) -> tuple[Line, ...]:
    name = short_name(option.checkpoint)
    reach = option.largest_context_len
    spare = "–" if option.spare_bytes is None else _signed(option.spare_bytes)
    return (
        strong(name) if first else name,
        *((option.engine,) if several else ()),
        option.cache_type,
        placement(option),
        *((format_tokens(option.context_len),) if lengths else ()),
        "–" if reach is None else f"{format_tokens(reach)} {_ENDS[option.limited_by]}".rstrip(),
        spare,
        "–" if option.bits_per_weight is None else f"{option.bits_per_weight:.1f}",
        prefill_words(option.speed),
        decode_words(option.speed),
        _seen(option),
    )


def _seen(option: Option) -> str | Words:
    run = option.run
    if run is None:
        return option.reason
    if not run.finished:
        return "could not be served here" + (f", run {run.run_id}" if run.run_id else "")
    recall = "nothing judged" if run.recall is None else f"recall {run.recall:.0%}"
    at = "" if run.length is None else f" at {format_tokens(run.length)} tokens"
    return f"measured, run {run.run_id}: {recall}{at}"


def step_table(steps: tuple[Step, ...]) -> Table:
    """What each step down from the first would save."""
    rows = (
        (
            _KINDS[step.kind],
            strong(short_name(step.change) if step.kind == "weights" else step.change),
            format_bytes(step.saved_bytes),
            "–" if step.largest_context_len is None else format_tokens(step.largest_context_len),
            step.costs or "–",
        )
        for step in steps
    )
    return table("step down | *with | >saves | >then reaches | *costs", rows)


def placement(option: Option) -> str:
    """Where the weights lie."""
    if option.n_cpu_moe:
        return f"{option.n_cpu_moe} blocks of experts in RAM"
    if option.gpu_layers is not None:
        return f"{option.gpu_layers} layers on the card"
    return "whole"


def _signed(count: int) -> str:
    return format_bytes(count) if count >= 0 else f"−{format_bytes(-count)}"
