"""A measurement as one HTML file: no script, no font, no picture from anywhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files

from ropewalk._version import __version__
from ropewalk.findings import Finding, by_severity
from ropewalk.measuring.records import ArmResult, Comparison, Measurement, SpeedPoint
from ropewalk.report.command import fold
from ropewalk.report.grid import (
    MOMENTS,
    Heatmap,
    heatmaps,
    lengths_of_speed,
    moment_rows,
    moments_head,
    visible_drop,
)
from ropewalk.report.layout import SEVERITY_MARKS, common_unit, in_unit, short_name
from ropewalk.report.markup import Markup, element, join
from ropewalk.report.plan import describe_rope, term_name
from ropewalk.report.speed import FIT_HEADS, fit_rows, planned_curve, rate_curve
from ropewalk.report.svg import Line, heatmap_svg, kind_of, legend_shape, line_plot, pair_bar, symbol_of
from ropewalk.units import format_bytes, format_seconds, format_tokens

_COMMAND_WIDTH = 110
_PLANNED = "Thin: the rate of the shortest prompt, carried on by the operations that the plan counts."


def measurement_html(measurement: Measurement) -> str:
    """The whole document, ready to be written to a file in UTF-8."""
    title = (
        f"Recall of {short_name(measurement.checkpoint)} at {format_tokens(measurement.target_len)} tokens"
    )
    return html_document(title, [part for part in _body(measurement) if part])


def html_document(title: str, body: Sequence[Markup]) -> str:
    """A document in our style."""
    style = files("ropewalk.report").joinpath("style.css").read_text(encoding="utf-8")
    head = [
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", title),
        element("style", Markup(style)),  # our own file: nothing of the user's is in it
    ]
    document = element("html", element("head", join(head)), element("body", join(body)), lang="en")
    return f"<!DOCTYPE html>\n{document}\n"


def _body(measurement: Measurement) -> Iterable[Markup]:
    yield _header(measurement)
    yield _verdict(measurement.comparison)
    for heatmap in heatmaps(measurement):
        yield _recall(heatmap)
    yield _reach(measurement.arms)
    yield _pairs(measurement)
    yield _memory(measurement.arms)
    yield _speed(measurement.arms)
    yield _servers(measurement.arms)
    yield _findings(measurement)
    yield _settings(measurement)
    yield element("footer", f"Made by ropewalk {__version__} from the stored run {measurement.run_id}.")


def _header(measurement: Measurement) -> Markup:
    status = "" if measurement.status == "finished" else f" · {measurement.status}"
    when = measurement.created.replace("T", " ").removesuffix("Z") + " UTC"
    line = f"{format_tokens(measurement.target_len)} tokens · {when} · run {measurement.run_id}{status}"
    return join([element("h1", short_name(measurement.checkpoint)), element("p", line, class_="soft")])


def _verdict(comparison: Comparison | None) -> Markup:
    if comparison is None:
        return element("p", "The arms were not compared.", class_="verdict open")
    kind = "verdict" if comparison.recommended else "verdict open"
    return element("p", comparison.verdict, class_=kind)


def _recall(heatmap: Heatmap) -> Markup:
    keys = [
        element("li", element("span", symbol_of(mark), class_=f"key on-{kind_of(mark)}"), mark.words)
        for mark in heatmap.marks()
    ]
    note = "Beside each row: hits of the judged trials at all depths, and Wilson's 95 % interval."
    return join([
        element("h2", f"Recall: {heatmap.task}"),
        element("figure", heatmap_svg(heatmap)),
        element("ul", *keys, class_="legend"),
        element("p", note, class_="note"),
    ])  # fmt: skip


def _reach(arms: Sequence[ArmResult]) -> Markup:
    rows = [
        [arm.label, _or_none(arm.effective_context_absolute), _or_none(arm.effective_context_relative)]
        for arm in arms
    ]
    heads = ["arm", "longest that passes the bar", "longest at 85 % of its own base"]
    return join([
        element("h2", "Effective context"),
        _table(heads, rows, numbers={1, 2}),
        element("p", "Lengths that were not run are not claimed.", class_="note"),
    ])  # fmt: skip


def _or_none(length: int | None) -> str:
    return "no claim" if length is None else format_tokens(length)


def _pairs(measurement: Measurement) -> Markup:
    if measurement.comparison is None or not measurement.comparison.pairs:
        return Markup("")
    labels = {arm.arm: arm.label for arm in measurement.arms}
    rows, pairs = [], measurement.comparison.pairs
    for pair in pairs:
        first, second = labels.get(pair.arm, pair.arm), labels.get(pair.other, pair.other)
        only = [f"{first}: {pair.only_arm}", f"{second}: {pair.only_other}"]
        rows.append([format_tokens(pair.length), str(pair.pairs), *only, f"{pair.p_value:.3g}"])
    heads = ["tokens", "pairs", "hit by one arm only", "and by the other only", "McNemar's exact p"]
    return join([
        element("h2", "The same prompts, arm against arm"),
        _table(heads, rows, numbers={0, 1, 4}),
        *(element("p", f"{line}.", class_="note") for line in dict.fromkeys(map(visible_drop, pairs))),
    ])  # fmt: skip


def _memory(arms: Sequence[ArmResult]) -> Markup:
    terms = [term for arm in arms for term in arm.memory]
    if not terms:
        return Markup("")
    figures = [(term.planned_bytes, term.printed_bytes, term.measured_bytes) for term in terms]
    largest = max([count or 0 for row in figures for count in row], default=0) or 1
    unit = common_unit((largest,))
    rows: list[list[str]] = []
    for arm in arms:
        for place, term in enumerate(arm.memory):
            counts = (term.planned_bytes, term.printed_bytes, term.measured_bytes)
            seen = term.printed_bytes if term.measured_bytes is None else term.measured_bytes
            name = [arm.label if place == 0 else "", term_name(term.name)]
            amounts = [_amount(count, unit) for count in counts]
            rows.append([*name, *amounts, pair_bar(term.planned_bytes, seen, largest)])
    heads = ["", "", f"planned, {unit}", f"printed, {unit}", f"measured, {unit}", "plan and reality"]
    how = dict.fromkeys(f"{term_name(term.name)} measured: {term.how}." for term in terms if term.how)
    return join([
        element("h2", "Memory: planned, printed by the engine, measured from outside"),
        _table(heads, rows, numbers={2, 3, 4}),
        element("p", "Outline: planned. Bar: measured, or printed where it was not.", class_="note"),
        *(element("p", line, class_="note") for line in how),
        *_moments(arms, unit),
    ])  # fmt: skip


def _moments(arms: Sequence[ArmResult], unit: str) -> Iterable[Markup]:
    rows = moment_rows(arms, unit)
    if rows:
        yield _table([moments_head(arms, unit), *MOMENTS.values()], rows, numbers={1, 2, 3})


def _amount(count: int | None, unit: str) -> str:
    return "–" if count is None else in_unit(count, unit)


def _speed(arms: Sequence[ArmResult]) -> Markup:
    timed = [arm for arm in arms if arm.speed]
    if not timed:
        return Markup("")
    lines = [
        Line(
            arm.label,
            tuple((p.length, p.prefill_tokens_per_second) for p in arm.speed),
            curve=rate_curve(arm),
            planned=planned_curve(arm),
        )
        for arm in timed
    ]
    keys = [element("li", legend_shape(n), line.name) for n, line in enumerate(lines)]
    rows = []
    for length in lengths_of_speed(timed):
        cells = (_speed_cell(arm.speed, length) for arm in timed)
        rows.append([format_tokens(length), *cells])
    return join([
        element("h2", "Prefill speed, nothing cached"),
        element("ul", *keys, class_="legend"),
        element("figure", line_plot(lines, x_title="prompt tokens", y_title="prefill tokens per second")),
        element("p", _PLANNED, class_="note"),
        _table(["tokens", *(arm.label for arm in timed)], rows, numbers={0}),
        *_fitted(timed),
    ])  # fmt: skip


def _fitted(arms: Sequence[ArmResult]) -> Iterable[Markup]:
    """The curves of the plot in figures; the square's share of the time beside the plan's of the work."""
    rows = fit_rows(arms)
    if rows:
        note = "Shapes are measured; the line is the fit: seconds = fixed + per token × n + per token² × n²."
        yield element("p", note, class_="note")
        yield _table(FIT_HEADS, rows, numbers={1, 2, 3, 4, 5})


def _speed_cell(points: Sequence[SpeedPoint], length: int) -> str:
    point = next((point for point in points if point.length == length), None)
    if point is None:
        return "–"
    return f"{point.prefill_tokens_per_second:,.0f} tok/s, {format_seconds(point.prefill_seconds)}"


def _servers(arms: Sequence[ArmResult]) -> Markup:
    """Each arm's rope, the context that its server reports, and the command that started it."""
    parts = [element("h2", "The servers")]
    for arm in arms:
        parts.append(element("h3", arm.label))
        if arm.rope:
            parts.append(element("p", f"{describe_rope(arm.rope)}: {arm.rope.reason}"))
        reported = "no context reported"
        if arm.context_reported is not None:
            reported = f"{format_tokens(arm.context_reported)} reported"
        parts.append(element("p", f"{format_tokens(arm.context_planned)} planned, {reported}", class_="note"))
        if arm.launch:
            parts.append(element("pre", fold(arm.launch.command, width=_COMMAND_WIDTH)))
    return join(parts)


def _findings(measurement: Measurement) -> Markup:
    findings = [*measurement.findings, *(finding for arm in measurement.arms for finding in arm.findings)]
    items = [_finding(finding) for finding in by_severity(findings)]
    shown = element("ul", *items, class_="findings") if items else element("p", "none")
    return join([element("h2", "Findings"), shown])


def _finding(finding: Finding) -> Markup:
    mark, _ = SEVERITY_MARKS[finding.severity]
    parts = (element("b", mark), element("code", finding.code), f" {finding.message}")
    return element("li", *parts, class_=finding.severity)


def _settings(measurement: Measurement) -> Markup:
    machine = measurement.machine
    versions = {
        f"{arm.launch.engine} {arm.launch.engine_version or ''}".rstrip()
        for arm in measurement.arms
        if arm.launch
    }
    rows = [
        ["checkpoint", measurement.checkpoint],
        ["fingerprint", measurement.checkpoint_fingerprint],
        ["engine", ", ".join(sorted(versions)) or "unknown"],
        ["machine", f"{machine.cpu}, {machine.cores} cores, {format_bytes(machine.memory_bytes)}"],
        ["system", machine.platform],
        *([["devices", ", ".join(machine.devices)]] if machine.devices else []),
        *([name, _setting(value)] for name, value in measurement.settings.items()),
    ]
    return join([element("h2", "Settings and versions"), _table(["", ""], rows, numbers=set())])


def _setting(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_setting(item) for item in value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: set[int]) -> Markup:
    kinds = ["number" if place in numbers else None for place in range(len(heads))]
    parts = []
    if any(heads):
        cells = (element("th", head, class_=kind) for head, kind in zip(heads, kinds, strict=True))
        parts.append(element("tr", *cells))
    for row in rows:
        cells = (element("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True))
        parts.append(element("tr", *cells))
    return element("div", element("table", join(parts)), class_="scroll")
