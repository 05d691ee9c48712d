"""The page at the end of ``ropewalk measure``: verdict, recall by length and depth, plan beside reality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ropewalk.findings import Finding
from ropewalk.measuring.loss.records import ProbeText
from ropewalk.measuring.records import ArmResult, Measurement, PairedRecall, SpeedFit
from ropewalk.report.figures import amount, common_unit, plural, short_name
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
from ropewalk.report.losses import TITLES, factor_table, loss_pairs_table, loss_table, probes_of
from ropewalk.report.page import (
    Block,
    Cell,
    Line,
    Page,
    Table,
    fields,
    findings_block,
    parts,
    soft,
    stack,
    strong,
    table,
    words,
)
from ropewalk.report.plan import term_name
from ropewalk.serving.host.devices import Hardware
from ropewalk.units import format_bytes, format_seconds, format_tokens


def measurement_page(measurement: Measurement) -> Page:
    """The page of a run, finished or not."""
    grids: list[Block] = []
    for heatmap in heatmaps(measurement):
        grids += ["", recall_grid(heatmap)]
    for probe in probes_of(measurement):
        grids += ["", Page((loss_table(measurement.arms, probe),), title=soft(TITLES[probe].lower()))]
    return Page((fields(_heading(measurement)), *grids, "", fields(_rows(measurement))))


def recall_grid(heatmap: Heatmap) -> Page:
    """Lengths as rows, arms as columns, a symbol per depth."""
    grid = table(
        [">tokens", *map(arm_name, heatmap.arms)],
        ([format_tokens(length), *map(_strip, strips)] for length, strips in heatmap.rows.items()),
        "  ".join(f"{mark.symbol} {mark.words}" for mark in heatmap.marks()),
        abreast=True,
    )
    title = soft(f"recall of {heatmap.task}: left is the start of the prompt, right its end")
    return Page((grid,), title=title)


def _strip(strip: Strip | None) -> Line:
    if strip is None:
        return soft("not run")
    marks = [(f"{square.mark.symbol} ", square.mark.tone) for square in strip.squares]
    return words(*marks, pooled(strip))


def _heading(measurement: Measurement) -> Iterator[tuple[str, Block]]:
    if measurement.status != "finished":
        yield "status", words((measurement.status, "warn"))
    if measurement.comparison:
        yield "verdict", strong(measurement.comparison.verdict)
        if measurement.comparison.loss_verdict not in (None, measurement.comparison.verdict):
            yield "by loss", strong(str(measurement.comparison.loss_verdict))
    machine = _machine(measurement.machine)
    yield "run", parts(measurement.run_id, short_name(measurement.checkpoint), each=machine)
    yield "for", f"{format_tokens(measurement.target_len)} tokens"


def _machine(machine: Hardware) -> Iterator[str]:
    yield f"{machine.cpu}, {plural(machine.cores, 'core')}"
    yield format_bytes(machine.memory_bytes)
    yield from machine.devices


def _rows(measurement: Measurement) -> Iterator[tuple[str, Block]]:
    arms, comparison = measurement.arms, measurement.comparison
    labels = {arm.arm: arm.label for arm in arms}
    if any(arm.cells for arm in arms):
        yield "reaches", reach_table(arms)
    if comparison and comparison.pairs:
        yield "pairs", pairs_table(comparison.pairs, labels)
    if comparison and comparison.losses:
        yield "losses", loss_pairs_table(comparison.losses, labels)
        if len(comparison.factors) > 1:
            yield "factors", factor_table(comparison.factors, labels)
    if measurement.texts:
        yield "texts", table("text | >tokens | fingerprint", map(_text, measurement.texts))
    if any(arm.memory for arm in arms):
        yield "memory", stack(memory_table(arms), *moments_table(arms))
    if lengths_of_speed(arms):
        yield "speed", speed_table(arms)
    if any(arm.speed_fit for arm in arms):
        yield "fitted", fit_table(arms)
    if any(arm.node for arm in arms):
        yield "ran on", table("| | | ", map(_node, (arm for arm in arms if arm.node)))
    yield "findings", findings_block(all_findings(measurement))


def _text(text: ProbeText) -> tuple[Cell, ...]:
    return (text.name, f"{text.tokens:,}", text.sha256[:16])


def all_findings(measurement: Measurement) -> list[Finding]:
    """Those of the run and of its arms."""
    return [*measurement.findings, *(finding for arm in measurement.arms for finding in arm.findings)]


def _node(arm: ArmResult) -> tuple[Cell, ...]:
    """The node of an arm that a campaign measured, what served there, and how often that was tried."""
    node = arm.node
    if node is None:
        return (arm.label, "–", "–", "")
    engine = f"{node.engine.name} {node.engine.version or ''}".rstrip() if node.engine else "–"
    return (arm.label, node.name, engine, "" if node.attempt == 1 else f"attempt {node.attempt}")


def reach_table(arms: Sequence[ArmResult]) -> Table:
    """The two effective lengths; a claim that the trials do not support is said to be none."""
    rows = (
        (arm.label, _length(arm.effective_context_absolute), _length(arm.effective_context_relative))
        for arm in arms
    )
    return table("arm | >passes the bar | >85 % of its own base", rows)


def _length(value: int | None) -> str:
    return "no claim" if value is None else f"{format_tokens(value)} tokens"


def pairs_table(pairs: Sequence[PairedRecall], labels: Mapping[str, str]) -> Table:
    """Discordant pairs and their p by length, and which drop so many pairs could show."""
    rows = []
    for pair in pairs:
        first, second = labels.get(pair.arm, pair.arm), labels.get(pair.other, pair.other)
        only = f"only {first}: {pair.only_arm}, only {second}: {pair.only_other}"
        only = f"{only}, of {plural(pair.pairs, 'pair')}"
        rows.append((format_tokens(pair.length), only, f"{pair.p_value:.3g}"))
    return table(
        ">tokens | *hit by one arm only | McNemar's p", rows, *dict.fromkeys(map(visible_drop, pairs))
    )


def memory_table(arms: Sequence[ArmResult]) -> Table:
    """Each term planned, printed by the engine, measured from outside; one unit for all."""
    unit = memory_unit(arms)
    terms = [(arm.label, term) for arm in arms for term in arm.memory]
    rows = []
    for label, term in terms:
        counts = (term.planned_bytes, term.printed_bytes, term.measured_bytes)
        rows.append((label, term_name(term.name), *(amount(count, unit) for count in counts)))
    how = dict.fromkeys(f"{term_name(term.name)} measured: {term.how}" for _, term in terms if term.how)
    return table("arm | memory | >planned | >printed | >measured", rows, *how, merge=True)


def memory_unit(arms: Sequence[ArmResult]) -> str:
    """The unit of all terms of all arms."""
    terms = [term for arm in arms for term in arm.memory]
    figures = [(term.planned_bytes, term.printed_bytes, term.measured_bytes) for term in terms]
    return common_unit(count or 0 for row in figures for count in row)


def moments_table(arms: Sequence[ArmResult]) -> list[Table]:
    """What was held at the named moments; none where nothing was seen."""
    rows = moment_rows(arms, memory_unit(arms))
    heads = [moments_head(arms), *(f">{name}" for name in MOMENTS.values())]
    return [table(heads, rows)] if rows else []


def speed_table(arms: Sequence[ArmResult]) -> Table:
    """Prefill tokens per second and the wait it makes, lengths down, arms across."""
    rows = ([format_tokens(n), *(_speed_cell(arm, n) for arm in arms)] for n in lengths_of_speed(arms))
    return table([">tokens", *(arm.label for arm in arms)], rows, abreast=True)


def _speed_cell(arm: ArmResult, length: int) -> str:
    point = next((point for point in arm.speed if point.length == length), None)
    if point is None:
        return "–"
    return f"{point.prefill_tokens_per_second:,.0f} tok/s, {format_seconds(point.prefill_seconds)}"


def fit_table(arms: Sequence[ArmResult]) -> Table:
    """The parts of each arm's curve; the square's share of the time beside the plan's of the work."""
    rows = (_fitted(arm.label, arm.speed_fit) for arm in arms if arm.speed_fit)
    return table("arm | >fixed | >per token | >per token² | *attention's share", rows)


def _fitted(label: str, fit: SpeedFit) -> tuple[Cell, ...]:
    share = f"{_share(fit.attention_share)} of the time at {format_tokens(fit.longest_len)}"
    return (
        label,
        f"{fit.seconds_fixed:.2f} s",
        f"{fit.seconds_per_token * 1e3:.3g} ms",
        f"{fit.seconds_per_token_squared * 1e9:.3g} ns",
        f"{share}, {_share(fit.planned_attention_share)} of the work",
    )


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"
