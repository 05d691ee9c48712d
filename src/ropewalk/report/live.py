"""What a running server is doing, as the lines below the page of ``ropewalk serve``."""

from __future__ import annotations

from collections.abc import Iterator

from ropewalk.planner.records import Plan
from ropewalk.report.nodes import nodes_line
from ropewalk.report.page import Block, Fields, fields, parts
from ropewalk.serving.live import Moment
from ropewalk.serving.server_report import ServerLoad
from ropewalk.units import format_gib, format_seconds, format_tokens

_STATES = {
    "idle": "idle",
    "busy": "busy",
    "silent": "does not answer right now",
    "unsupported": "running; this engine does not report whether it is busy",
}


def live_page(plan: Plan, moment: Moment) -> Fields:
    """State, requests, cache, speed and memory at one moment; unknown is left out."""
    since = f"for {format_seconds(moment.uptime_seconds)}"
    rows: list[tuple[str, Block]] = [("state", parts(_STATES[moment.state], since))]
    if moment.load is not None:
        rows.append(("requests", parts(f"{moment.load.running} running", f"{moment.load.waiting} waiting")))
        rows.append(("KV cache", parts(each=list(_cache(moment.load)) or ["not reported"])))
        rows.append(("speed", parts(each=_speed(moment, moment.load))))
    if moment.memory is not None:
        rows.append(("memory", parts(each=_memory(plan, moment))))
    if moment.nodes:
        rows.append(("nodes", parts(*nodes_line(moment))))
    return fields(rows)


def _cache(load: ServerLoad) -> Iterator[str]:
    if load.kv_tokens is not None:
        yield f"{format_tokens(load.kv_tokens)} tokens held"
    if load.kv_share is not None:
        yield f"{load.kv_share:.1%} in use"


def _speed(moment: Moment, load: ServerLoad) -> Iterator[str]:
    for verb, rate, total in (
        ("reads", moment.prompt_rate, load.prompt_tokens),
        ("writes", moment.generated_rate, load.generated_tokens),
    ):
        amount = f"{format_tokens(total)} tokens so far"
        yield f"{verb} {rate:,.0f} tokens/s, {amount}" if rate is not None else f"{verb}: {amount}"


def _memory(plan: Plan, moment: Moment) -> Iterator[str]:
    """Resident now; on a GPU most of the plan is elsewhere, so that it is compared for the host alone."""
    assert moment.memory is not None  # noqa: S101 - the caller looked
    yield f"{format_gib(moment.memory.anon_bytes)} anonymous"
    yield f"{format_gib(moment.memory.file_bytes)} of mapped files"
    if all(share.device.startswith("cpu") for share in plan.memory.per_device):
        yield f"{format_gib(plan.memory.total_bytes)} planned in all"
