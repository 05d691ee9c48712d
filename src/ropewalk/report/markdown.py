"""A measurement as a piece of Markdown for an issue or a model card."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ropewalk.measuring.records import Measurement
from ropewalk.report.command import fold
from ropewalk.report.grid import Heatmap, Strip, arm_name, heatmaps, pooled
from ropewalk.report.layout import short_name
from ropewalk.units import format_bytes, format_tokens

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|!])")


def measurement_markdown(measurement: Measurement) -> str:
    """Verdict, a table of recall per task, and how to repeat it."""
    return "\n".join(_lines(measurement)) + "\n"


def _lines(measurement: Measurement) -> Iterator[str]:
    name = _plain(short_name(measurement.checkpoint))
    yield f"### Recall of {name} at {format_tokens(measurement.target_len)} tokens"
    if measurement.comparison:
        yield ""
        yield f"**{_plain(measurement.comparison.verdict)}**"
    for heatmap in heatmaps(measurement):
        yield ""
        yield from _table(heatmap)
    yield ""
    machine = measurement.machine
    where = _plain(f"{machine.cpu}, {machine.cores} cores, {format_bytes(machine.memory_bytes)}")
    yield f"{where}; run `{measurement.run_id}`, {measurement.created}."
    for arm in measurement.arms:
        if arm.launch:
            engine = f"{arm.launch.engine} {arm.launch.engine_version or ''}".rstrip()
            yield f"\n{_plain(f'{arm.label}, {engine}')}"
            yield f"```\n{fold(arm.launch.command, width=100)}\n```"


def _table(heatmap: Heatmap) -> Iterator[str]:
    yield f"`{heatmap.task}`, from the start of the prompt to its end; hits of judged trials, 95 % interval:"
    yield ""
    yield _row(["tokens", *(_plain(arm_name(arm)) for arm in heatmap.arms)])
    yield _row(["---:", *(":---" for _ in heatmap.arms)])
    for length, strips in heatmap.rows.items():
        yield _row([format_tokens(length), *(_cell(strip) for strip in strips)])
    yield ""
    yield ", ".join(f"`{mark.symbol}` {mark.words}" for mark in heatmap.marks())


def _cell(strip: Strip | None) -> str:
    if strip is None:
        return "not run"
    return f"`{''.join(square.mark.symbol for square in strip.squares)}` {pooled(strip)}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(value: str) -> str:
    """Text without a meaning to Markdown, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(value.split()))
