"""Descriptions as HTML, and a measurement as one file: no script, no font, no picture from anywhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.resources import files

from ropewalk._version import __version__
from ropewalk.findings import Finding, by_severity
from ropewalk.measuring.loss.records import Read
from ropewalk.measuring.records import ArmResult, Comparison, Measurement
from ropewalk.report.command import fold
from ropewalk.report.figures import plural, short_name, value_text
from ropewalk.report.grid import Heatmap, heatmaps
from ropewalk.report.lines import lay
from ropewalk.report.losses import (
    TITLES,
    X_TITLES,
    Y_TITLE,
    factor_table,
    loss_pairs_table,
    loss_series,
    loss_table,
    probes_of,
)
from ropewalk.report.markup import Markup, element, join
from ropewalk.report.measurement import (
    all_findings,
    fit_table,
    memory_table,
    moments_table,
    pairs_table,
    reach_table,
    speed_table,
)
from ropewalk.report.page import SEVERITY, Bar, Block, Cell, Fields, Page, Parts, Plot, Table, Verbatim, Words
from ropewalk.report.page import table as described
from ropewalk.report.plan import describe_rope
from ropewalk.report.speed import planned_curve, rate_curve
from ropewalk.report.svg import Line, heatmap_svg, kind_of, legend_shape, line_plot, pair_bar, symbol_of
from ropewalk.units import format_bytes, format_tokens

_COMMAND_WIDTH = 110
_PLANNED = "Thin: the rate of the shortest prompt, carried on by the operations that the plan counts."
_FIT = "Shapes are measured; the line is the fit: seconds = fixed + per token × n + per token² × n²."


def block_html(block: Block) -> Markup:
    """A description as elements in our style."""
    match block:
        case str() | Words():
            return element("p", _cell(block))
        case Parts():
            return element("p", " · ".join(map(str, block.parts)))
        case Table():
            return _table(block)
        case Verbatim():
            return element("pre", block.text)
        case Plot():
            return element("pre", "\n".join(map(str, lay(block, None))))
        case Fields():
            rows = [
                element("tr", element("th", label), element("td", block_html(said)))
                for label, said in block.rows
            ]
            return element("table", *rows)
        case Page():
            title = [] if block.title is None else [element("p", _cell(block.title))]
            return join([*title, *map(block_html, block.blocks)])


def _table(block: Table, drawn: Sequence[Markup] = ()) -> Markup:
    """``drawn`` is a last cell for each row."""
    kinds = ["number" if column.align == "right" else None for column in block.columns]
    heads = [element("th", c.head, class_=kind) for c, kind in zip(block.columns, kinds, strict=True)]
    lines = [element("tr", *heads, *([element("th", "")] if drawn else []))]
    lines = lines if any(column.head for column in block.columns) else []
    above: Cell | None = None
    for number, row in enumerate(block.rows):
        cells = ["" if block.merge and row[0] == above else row[0], *row[1:]]
        above = row[0]
        shown = [element("td", _cell(c), class_=kind) for c, kind in zip(cells, kinds, strict=True)]
        lines.append(element("tr", *shown, *([element("td", drawn[number])] if drawn else [])))
    notes = (element("p", _cell(note), class_="note") for note in block.notes)
    return join([element("div", element("table", join(lines)), class_="scroll"), *notes])


def _cell(cell: Cell) -> str:
    if isinstance(cell, Bar):
        return pair_bar(None, round(cell.high * 1000), 1000)
    if isinstance(cell, str):
        return cell
    return join([element("span", text, class_=tone) if tone else text for text, tone in cell.runs])


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
    arms = measurement.arms
    yield _header(measurement)
    yield _verdict(measurement.comparison)
    for heatmap in heatmaps(measurement):
        yield _recall(heatmap)
    for probe in probes_of(measurement):
        yield _losses(arms, probe)
    labels, comparison = {arm.arm: arm.label for arm in arms}, measurement.comparison
    if any(arm.cells for arm in arms):
        yield _section(
            "Effective context", _table(reach_table(arms)), note="Lengths that were not run are not claimed."
        )
    if comparison and comparison.pairs:
        yield _section("The same prompts, arm against arm", _table(pairs_table(comparison.pairs, labels)))
    if comparison and comparison.losses:
        losses = loss_pairs_table(comparison.losses, labels)
        yield _section("The same tokens, arm against arm", _table(losses))
        if len(comparison.factors) > 1:
            yield _section("Factors", _table(factor_table(comparison.factors, labels)))
    if any(arm.memory for arm in arms):
        yield _memory(arms)
    if timed := [arm for arm in arms if arm.speed]:
        yield _speed(timed)
    yield _servers(arms)
    yield _findings(all_findings(measurement))
    yield _section("Settings and versions", _table(described("|*", _settings(measurement))))
    yield element("footer", f"Made by ropewalk {__version__} from the stored run {measurement.run_id}.")


def _section(title: str, *content: Markup, note: str | None = None) -> Markup:
    notes = [element("p", note, class_="note")] if note else []
    return join([element("h2", title), *content, *notes])


def _header(measurement: Measurement) -> Markup:
    status = "" if measurement.status == "finished" else f" · {measurement.status}"
    when = measurement.created.replace("T", " ").removesuffix("Z") + " UTC"
    line = f"{format_tokens(measurement.target_len)} tokens · {when} · run {measurement.run_id}{status}"
    return join([element("h1", short_name(measurement.checkpoint)), element("p", line, class_="soft")])


def _verdict(comparison: Comparison | None) -> Markup:
    if comparison is None:
        return element("p", "The arms were not compared.", class_="verdict open")
    kind = "verdict" if comparison.recommended else "verdict open"
    by_loss = comparison.loss_verdict
    said = [element("p", comparison.verdict, class_=kind)]
    if by_loss not in (None, comparison.verdict):
        said.append(element("p", f"By loss: {by_loss}.", class_=kind))
    return join(said)


def _recall(heatmap: Heatmap) -> Markup:
    keys = [
        element("li", element("span", symbol_of(mark), class_=f"key on-{kind_of(mark)}"), mark.words)
        for mark in heatmap.marks()
    ]
    note = "Beside each row: hits of the judged trials at all depths, and Wilson's 95 % interval."
    figure = element("figure", heatmap_svg(heatmap))
    return _section(f"Recall: {heatmap.task}", figure, element("ul", *keys, class_="legend"), note=note)


def _losses(arms: Sequence[ArmResult], probe: Read) -> Markup:
    series = loss_series(arms, probe)
    lines = [
        Line(
            one.name,
            tuple((point.x, point.mean) for point in one.points),
            band=tuple((p.x, p.low, p.high) for p in one.points if p.low is not None and p.high is not None),
        )
        for one in series
    ]
    keys = [element("li", legend_shape(n), line.name) for n, line in enumerate(lines)]
    plot = line_plot(lines, x_title=X_TITLES[probe], y_title=Y_TITLE)
    return _section(
        TITLES[probe],
        element("ul", *keys, class_="legend"),
        element("figure", plot),
        _table(loss_table(arms, probe)),
        note="The shade is the 95 % block bootstrap interval of each bin.",
    )


def _memory(arms: Sequence[ArmResult]) -> Markup:
    terms = [term for arm in arms for term in arm.memory]
    figures = [(term.planned_bytes, term.printed_bytes, term.measured_bytes) for term in terms]
    largest = max([count or 0 for row in figures for count in row], default=0) or 1
    bars = [
        pair_bar(planned, printed if measured is None else measured, largest)
        for planned, printed, measured in figures
    ]
    table = memory_table(arms)
    how = ("Outline: planned. Bar: measured, or printed where it was not.", *table.notes)
    return _section(
        "Memory: planned, printed by the engine, measured from outside",
        _table(replace(table, notes=how), bars),
        *map(_table, moments_table(arms)),
    )


def _speed(arms: Sequence[ArmResult]) -> Markup:
    lines = [
        Line(
            arm.label,
            tuple((p.length, p.prefill_tokens_per_second) for p in arm.speed),
            curve=rate_curve(arm),
            planned=planned_curve(arm),
        )
        for arm in arms
    ]
    keys = [element("li", legend_shape(n), line.name) for n, line in enumerate(lines)]
    plot = line_plot(lines, x_title="prompt tokens", y_title="prefill tokens per second")
    return _section(
        "Prefill speed, nothing cached",
        element("ul", *keys, class_="legend"),
        element("figure", plot),
        element("p", _PLANNED, class_="note"),
        _table(speed_table(arms)),
        *([_table(replace(fit_table(arms), notes=(_FIT,)))] if any(arm.speed_fit for arm in arms) else []),
    )


def _servers(arms: Sequence[ArmResult]) -> Markup:
    """Each arm's rope, the context that its server reports, and the command that started it."""
    parts = []
    for arm in arms:
        parts.append(element("h3", arm.label))
        if arm.rope:
            parts.append(element("p", f"{describe_rope(arm.rope)}: {arm.rope.reason}"))
        reported = "no context reported"
        if arm.context_reported is not None:
            reported = f"{format_tokens(arm.context_reported)} reported"
        planned = f"{format_tokens(arm.context_planned)} tokens planned, {reported}"
        parts.append(element("p", planned, class_="note"))
        if arm.launch:
            parts.append(block_html(Verbatim(fold(arm.launch.command, width=_COMMAND_WIDTH))))
    return _section("The servers", *parts)


def _findings(findings: Sequence[Finding]) -> Markup:
    items = [
        element(
            "li",
            element("b", SEVERITY[finding.severity][0]),
            element("code", finding.code),
            f" {finding.message}",
            class_=finding.severity,
        )
        for finding in by_severity(findings)
    ]
    return _section("Findings", element("ul", *items, class_="findings") if items else element("p", "none"))


def _settings(measurement: Measurement) -> Iterator[tuple[str, str]]:
    machine = measurement.machine
    launches = [arm.launch for arm in measurement.arms if arm.launch]
    versions = {f"{launch.engine} {launch.engine_version or ''}".rstrip() for launch in launches}
    cores = plural(machine.cores, "core")
    yield "checkpoint", measurement.checkpoint
    yield "fingerprint", measurement.checkpoint_fingerprint
    for text in measurement.texts:
        yield f"text {text.name}", f"{format_tokens(text.tokens)} tokens, sha256 {text.sha256}"
    yield "engine", ", ".join(sorted(versions)) or "unknown"
    yield "machine", f"{machine.cpu}, {cores}, {format_bytes(machine.memory_bytes)}"
    yield "system", machine.platform
    if machine.devices:
        yield "devices", ", ".join(machine.devices)
    for name, value in measurement.settings.items():
        yield name, value_text(value)
