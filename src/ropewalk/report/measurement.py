"""The page at the end of ``ropewalk measure``: verdict, recall by length and depth, plan beside reality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from ropewalk.measuring.records import ArmResult, Measurement, PairedRecall
from ropewalk.report.grid import (
    MOMENTS,
    Heatmap,
    Strip,
    arm_name,
    heatmaps,
    lengths_of_speed,
    moment_rows,
    moments_head,
    pooled,
    visible_drop,
)
from ropewalk.report.layout import Parts, columns, common_unit, findings_block, in_unit, labelled, short_name
from ropewalk.report.plan import term_name
from ropewalk.report.speed import FIT_HEADS, fit_rows
from ropewalk.serving.host.devices import Hardware
from ropewalk.units import format_bytes, format_seconds, format_tokens

_LENGTH_WIDTH = 7
_GAP = 2
Row = tuple[str, RenderableType]


def measurement_page(measurement: Measurement) -> RenderableType:
    """The page of a run, finished or not."""
    parts: list[RenderableType] = [labelled(_heading(measurement))]
    for heatmap in heatmaps(measurement):
        parts += ["", HeatmapText(heatmap)]
    parts += ["", labelled(_rows(measurement))]
    return Group(*parts)


class HeatmapText:
    """Lengths as rows, arms as columns, a symbol per depth; as many arms abreast as the page is wide."""

    def __init__(self, heatmap: Heatmap) -> None:
        self.heatmap = heatmap

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heatmap = self.heatmap
        yield Text(f"recall of {heatmap.task}: left is the start of the prompt, right its end", style="dim")
        abreast = max(1, (options.max_width - _LENGTH_WIDTH) // (_GAP + self._arm_width()))
        for first in range(0, len(heatmap.arms), abreast):
            yield self._table(range(first, min(first + abreast, len(heatmap.arms))))
        yield Text("  ".join(f"{mark.symbol} {mark.words}" for mark in heatmap.marks()), style="dim")

    def _arm_width(self) -> int:
        """The widest column: an arm's name, or its strip at one length."""
        strips = (_strip(strip).cell_len for row in self.heatmap.rows.values() for strip in row)
        return max([*strips, *(cell_len(arm_name(arm)) for arm in self.heatmap.arms)])

    def _table(self, arms: Sequence[int]) -> RenderableType:
        table = columns("right", *("left" for _ in arms))
        table.columns[0].width = _LENGTH_WIDTH
        table.add_row("", *(Text(arm_name(self.heatmap.arms[arm]), style="bold") for arm in arms))
        for length, strips in self.heatmap.rows.items():
            table.add_row(format_tokens(length), *(_strip(strips[arm]) for arm in arms))
        return table


def _strip(strip: Strip | None) -> Text:
    if strip is None:
        return Text("not run", style="dim")
    text = Text()
    for square in strip.squares:
        text.append(square.mark.symbol, style=square.mark.style).append(" ")
    return text.append(pooled(strip))


def _heading(measurement: Measurement) -> Iterator[Row]:
    comparison = measurement.comparison
    if measurement.status != "finished":
        yield "status", Text(measurement.status, style="bold yellow")
    if comparison:
        yield "verdict", Text(comparison.verdict, style="bold")
    yield (
        "run",
        Parts([measurement.run_id, short_name(measurement.checkpoint), *_machine(measurement.machine)]),
    )
    yield "for", f"{format_tokens(measurement.target_len)} tokens"


def _machine(machine: Hardware) -> Iterator[str]:
    yield f"{machine.cpu}, {machine.cores} cores"
    yield format_bytes(machine.memory_bytes)
    yield from machine.devices


def _rows(measurement: Measurement) -> Iterator[Row]:
    yield "reaches", reach_table(measurement.arms)
    if measurement.comparison and measurement.comparison.pairs:
        labels = {arm.arm: arm.label for arm in measurement.arms}
        yield "pairs", pairs_table(measurement.comparison.pairs, labels)
    if any(arm.memory for arm in measurement.arms):
        yield "memory", memory_table(measurement.arms)
    if lengths_of_speed(measurement.arms):
        yield "speed", speed_table(measurement.arms)
    if fits := fit_rows(measurement.arms):
        yield "fitted", _fitted(fits)
    if any(arm.node for arm in measurement.arms):
        yield "ran on", _nodes(measurement.arms)
    findings = [*measurement.findings, *(finding for arm in measurement.arms for finding in arm.findings)]
    yield "findings", findings_block(findings)


def _nodes(arms: Sequence[ArmResult]) -> RenderableType:
    """The node of each arm that a campaign measured, what served there, and how often that was tried."""
    table = columns("left", "left", "left", "left")
    for arm in arms:
        if node := arm.node:
            engine = f"{node.engine.name} {node.engine.version or ''}".rstrip() if node.engine else "–"
            tried = "" if node.attempt == 1 else f"attempt {node.attempt}"
            table.add_row(arm.label, node.name, engine, tried)
    return table


def reach_table(arms: Sequence[ArmResult]) -> RenderableType:
    """The two effective lengths; a claim that the trials do not support is said to be none."""
    table = columns("left", "right", "right")
    table.add_row("", Text("passes the bar", style="dim"), Text("85 % of its own base", style="dim"))
    for arm in arms:
        absolute, relative = arm.effective_context_absolute, arm.effective_context_relative
        table.add_row(arm.label, *(_length(value) for value in (absolute, relative)))
    return table


def _length(value: int | None) -> str:
    return "no claim" if value is None else format_tokens(value)


def pairs_table(pairs: Sequence[PairedRecall], labels: Mapping[str, str]) -> RenderableType:
    """Discordant pairs and their p by length, and which drop so many pairs could show."""
    table = columns("right", "left", "left")
    for pair in pairs:
        first, second = labels.get(pair.arm, pair.arm), labels.get(pair.other, pair.other)
        only = f"only {first}: {pair.only_arm}, only {second}: {pair.only_other}, of {pair.pairs} pairs"
        table.add_row(format_tokens(pair.length), only, f"p = {pair.p_value:.3g}")
    return Group(table, *(Text(line, style="dim") for line in dict.fromkeys(map(visible_drop, pairs))))


def memory_table(arms: Sequence[ArmResult]) -> RenderableType:
    """Each term planned, printed by the engine, measured from outside; one unit for all."""
    terms = [term for arm in arms for term in arm.memory]
    figures = [(term.planned_bytes, term.printed_bytes, term.measured_bytes) for term in terms]
    unit = common_unit(count or 0 for row in figures for count in row)
    table = columns("left", "left", "right", "right", "right")
    heads = ("", unit, "planned", "printed", "measured")
    table.add_row(*(Text(head, style="dim") for head in heads))
    for arm in arms:
        for place, term in enumerate(arm.memory):
            label = arm.label if place == 0 else ""
            counts = (term.planned_bytes, term.printed_bytes, term.measured_bytes)
            cells = ("–" if count is None else in_unit(count, unit) for count in counts)
            table.add_row(label, term_name(term.name), *cells)
    how = dict.fromkeys(f"{term_name(term.name)} measured: {term.how}" for term in terms if term.how)
    return Group(table, *(Text(line, style="dim") for line in how), *_moments(arms, unit))


def _moments(arms: Sequence[ArmResult], unit: str) -> Iterator[RenderableType]:
    rows = moment_rows(arms, unit)
    if rows:
        table = columns("left", "right", "right", "right")
        table.add_row(*(Text(head, style="dim") for head in (moments_head(arms, unit), *MOMENTS.values())))
        for row in rows:
            table.add_row(*row)
        yield table


def speed_table(arms: Sequence[ArmResult]) -> RenderableType:
    """Prefill tokens per second and the wait it makes, lengths down, arms across."""
    table = columns("right", *("left" for _ in arms))
    table.add_row(Text("prefill", style="dim"), *(Text(arm.label, style="dim") for arm in arms))
    for length in lengths_of_speed(arms):
        cells = (_speed_cell(arm, length) for arm in arms)
        table.add_row(format_tokens(length), *cells)
    return table


def _fitted(rows: Sequence[Sequence[str]]) -> RenderableType:
    """The parts of each arm's curve; the square's share of the time beside the plan's of the work."""
    table = columns("left", "right", "right", "right", "left")
    heads = ("", *FIT_HEADS[1:4], "attention's share")
    table.add_row(*(Text(head, style="dim") for head in heads))
    for *parts, measured, planned in rows:
        table.add_row(*parts, f"{measured}, planned {planned}")
    return table


def _speed_cell(arm: ArmResult, length: int) -> str:
    point = next((point for point in arm.speed if point.length == length), None)
    if point is None:
        return "–"
    return f"{point.prefill_tokens_per_second:,.0f} tok/s, {format_seconds(point.prefill_seconds)}"
