"""The page of ``ropewalk runs RUN OTHER``: the arms of two runs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ropewalk.measuring.records import ArmResult, Measurement
from ropewalk.measuring.run_pair import RunPair
from ropewalk.report.figures import short_name, value_text
from ropewalk.report.grid import heatmaps, lengths_of_speed
from ropewalk.report.losses import loss_pairs_table
from ropewalk.report.measurement import memory_table, pairs_table, reach_table, recall_grid, speed_table
from ropewalk.report.page import Block, Page, fields, parts, soft, table

_FINGERPRINT = len("sha256:") + 12


def runpair_page(pair: RunPair) -> Page:
    """What differs in how the runs were made, then recall, reach, memory and speed, arm beside arm."""
    arms = tuple(_side_by_side(pair.one, pair.other))
    grids: list[Block] = []
    for heatmap in heatmaps(replace(pair.one, arms=arms)):
        grids += ["", recall_grid(heatmap)]
    return Page((fields(_heading(pair)), *grids, "", fields(_rows(arms, pair))))


def _side_by_side(one: Measurement, other: Measurement) -> Iterator[ArmResult]:
    """Arms of the same name next to each other, the run's number before the label."""
    runs = [{arm.arm: arm for arm in run.arms} for run in (one, other)]
    for name in dict.fromkeys(name for arms in runs for name in arms):
        for number, arms in enumerate(runs, start=1):
            if name in arms:
                yield replace(arms[name], label=f"{number} {arms[name].label}")


def _heading(pair: RunPair) -> Iterator[tuple[str, Block]]:
    for number, run in enumerate((pair.one, pair.other), start=1):
        yield f"run {number}", parts(run.run_id, short_name(run.checkpoint), run.status)
    rows = [(soft(each.field), _shown(each.one), _shown(each.other)) for each in pair.differences]
    yield "differ in", table("| *run 1 | *run 2", rows) if rows else "nothing that was set"


def _shown(value: object) -> str:
    if isinstance(value, str) and value.startswith("sha256:"):
        return value[:_FINGERPRINT]  # enough to tell two apart
    return value_text(value)


def _rows(arms: tuple[ArmResult, ...], pair: RunPair) -> Iterator[tuple[str, Block]]:
    yield "reaches", reach_table(arms)
    if any(arm.memory for arm in arms):
        yield "memory", memory_table(arms)
    labels = _labels(arms)
    if pair.pairs:
        named = [replace(one, arm=labels[one.arm][0], other=labels[one.other][1]) for one in pair.pairs]
        yield "pairs", pairs_table(named, {})
    else:
        yield "pairs", "no prompt was asked in both, token for token"
    if pair.losses:
        read = [replace(one, arm=labels[one.arm][0], other=labels[one.other][1]) for one in pair.losses]
        yield "losses", loss_pairs_table(read, {})
    if lengths_of_speed(arms):
        yield "speed", speed_table(arms)


def _labels(arms: Sequence[ArmResult]) -> dict[str, list[str]]:
    """Both arms of a pair have the name of one arm: their labels have the run's number."""
    labels: dict[str, list[str]] = {}
    for arm in arms:
        labels.setdefault(arm.arm, []).append(arm.label)
    return labels
