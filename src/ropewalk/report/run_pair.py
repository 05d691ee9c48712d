"""The page of ``ropewalk runs RUN OTHER``: the arms of two runs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.text import Text

from ropewalk.measuring.records import ArmResult, Measurement, PairedRecall
from ropewalk.measuring.run_pair import Difference, RunPair
from ropewalk.report.grid import heatmaps, lengths_of_speed
from ropewalk.report.layout import Parts, columns, labelled, short_name
from ropewalk.report.measurement import HeatmapText, pairs_table, reach_table, speed_table

_FINGERPRINT = len("sha256:") + 12
Row = tuple[str, RenderableType]


def runpair_page(pair: RunPair) -> RenderableType:
    """What differs in how the runs were made, then recall, reach and speed, arm beside arm."""
    arms = tuple(_side_by_side(pair.one, pair.other))
    both = replace(pair.one, arms=arms)
    parts: list[RenderableType] = [labelled(_heading(pair))]
    for heatmap in heatmaps(both):
        parts += ["", HeatmapText(heatmap)]
    parts += ["", labelled(_rows(arms, pair.pairs))]
    return Group(*parts)


def _side_by_side(one: Measurement, other: Measurement) -> Iterator[ArmResult]:
    """Arms of the same name next to each other, the run's number before the label."""
    runs = [{arm.arm: arm for arm in run.arms} for run in (one, other)]
    for name in dict.fromkeys(name for arms in runs for name in arms):
        for number, arms in enumerate(runs, start=1):
            if name in arms:
                yield replace(arms[name], label=f"{number} {arms[name].label}")


def _heading(pair: RunPair) -> Iterator[Row]:
    for number, run in enumerate((pair.one, pair.other), start=1):
        yield f"run {number}", Parts([run.run_id, short_name(run.checkpoint), run.status])
    yield "differ in", _differences(pair.differences) if pair.differences else "nothing that was set"


def _differences(differences: tuple[Difference, ...]) -> RenderableType:
    table = columns("left", "left", "left")
    for difference in differences:
        table.add_row(Text(difference.field, style="dim"), _shown(difference.one), _shown(difference.other))
    return table


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_shown(item) for item in value) or "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, str) and value.startswith("sha256:"):
        return value[:_FINGERPRINT]  # enough to tell two apart
    return "–" if value is None else str(value)


def _rows(arms: tuple[ArmResult, ...], pairs: Sequence[PairedRecall]) -> Iterator[Row]:
    yield "reaches", reach_table(arms)
    yield "pairs", _pairs(pairs, arms) if pairs else "no prompt was asked in both, token for token"
    if lengths_of_speed(arms):
        yield "speed", speed_table(arms)


def _pairs(pairs: Sequence[PairedRecall], arms: Sequence[ArmResult]) -> RenderableType:
    """Both arms of a pair have the name of one arm: their labels have the run's number."""
    labels: dict[str, list[str]] = {}
    for arm in arms:
        labels.setdefault(arm.arm, []).append(arm.label)
    named = [replace(pair, arm=labels[pair.arm][0], other=labels[pair.other][1]) for pair in pairs]
    return pairs_table(named, {})
