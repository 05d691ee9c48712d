"""The page of ``ropewalk choose``: the candidates in order, why, and the command of the first."""

from __future__ import annotations

from ropewalk.planner.choose import Choice, Option
from ropewalk.report.command import fold
from ropewalk.report.figures import short_name
from ropewalk.report.page import Page, Verbatim, Words, strong, table
from ropewalk.units import format_bytes, format_tokens

_SHOWN, _COMMAND_WIDTH = 8, 96


def choice_page(choice: Choice, *, explain: bool = False) -> Page:
    """The best candidates, all with ``explain``; the nearest where none is an answer."""
    working = [option for option in choice.options if option.works]
    shown = choice.options if explain else (working or choice.options)[:_SHOWN]
    heads = (
        "checkpoint | engine | cache | placement | >tokens | >reaches | >to spare | >bits | >tokens/s | *why"
    )
    rows = [_row(option, first=option is choice.options[0] and option.works) for option in shown]
    what = "the longest each" if choice.context_len is None else f"{format_tokens(choice.context_len)} tokens"
    said = (
        f"{len(working)} of {len(choice.options)} candidates hold {what} "
        f"on a device of {format_bytes(choice.budget_bytes)}"
    )
    return Page((said, table(heads, rows), *_command(choice)))


def _command(choice: Choice) -> tuple[Verbatim, ...]:
    return (Verbatim(fold(choice.command, width=_COMMAND_WIDTH)),) if choice.command else ()


def _row(option: Option, *, first: bool) -> tuple[str | Words, ...]:
    name = short_name(option.checkpoint)
    reach = "–" if option.max_context_len is None else format_tokens(option.max_context_len)
    spare = "–" if option.spare_bytes is None else _signed(option.spare_bytes)
    return (
        strong(name) if first else name,
        option.engine,
        option.cache_type,
        _placement(option),
        format_tokens(option.context_len),
        reach,
        spare,
        "–" if option.bits_per_weight is None else f"{option.bits_per_weight:.1f}",
        "–" if option.decode_tokens_per_second is None else f"≤ {option.decode_tokens_per_second:.0f}",
        option.reason,
    )


def _signed(count: int) -> str:
    return format_bytes(count) if count >= 0 else f"−{format_bytes(-count)}"


def _placement(option: Option) -> str:
    if option.n_cpu_moe:
        return f"{option.n_cpu_moe} blocks of experts in RAM"
    if option.gpu_layers is not None:
        return f"{option.gpu_layers} layers on the card"
    return "whole"
