"""Losses by position and by distance of copying, described: tables, and series to be drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ropewalk.measuring.loss.records import FactorCost, LossBin, LossCurve, PairedLoss, Read
from ropewalk.measuring.records import ArmResult, Measurement
from ropewalk.report.figures import plural
from ropewalk.report.page import Table, table
from ropewalk.units import format_tokens

TITLES: dict[Read, str] = {
    "loss": "Loss by position",
    "copy": "Loss of repeated passages by their distance",
}
X_TITLES: dict[Read, str] = {"loss": "position in tokens", "copy": "tokens back to the passage"}
Y_TITLE = "nats per token"
UNIT = "nats per token; an interval without zero shows a difference"


@dataclass(frozen=True, slots=True)
class LossPoint:
    """The middle of a bin, its mean in nats per token, and its 95 % interval where there is one."""

    x: float
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class LossSeries:
    """The curve of one arm, ready to be drawn."""

    name: str
    points: tuple[LossPoint, ...]


def probes_of(measurement: Measurement) -> list[Read]:
    """The probes of which any arm has a curve."""
    read = {curve.probe for arm in measurement.arms for curve in arm.losses}
    return [probe for probe in TITLES if probe in read]


def loss_series(arms: Iterable[ArmResult], probe: Read) -> tuple[LossSeries, ...]:
    """A curve for each arm that has one, in the order of the arms."""
    return tuple(
        LossSeries(arm.label, tuple(_point(one) for one in curve.bins))
        for arm in arms
        for curve in arm.losses
        if curve.probe == probe
    )


def loss_table(arms: Sequence[ArmResult], probe: Read) -> Table:
    """Bins down, arms across: the mean and its interval."""
    named = [(arm.label, curve) for arm in arms for curve in arm.losses if curve.probe == probe]
    spans = sorted({(one.start, one.end) for _, curve in named for one in curve.bins})
    rows = ([_span(span), *(_cell(curve, span) for _, curve in named)] for span in spans)
    notes = [note for label, curve in named for note in _notes(label, curve)]
    head = ">tokens" if probe == "loss" else ">tokens back"
    unit = "nats per token; in brackets the 95 % block bootstrap interval"
    return table([head, *(label for label, _ in named)], rows, unit, *notes, abreast=True)


def loss_pairs_table(pairs: Sequence[PairedLoss], labels: Mapping[str, str]) -> Table:
    """Arm against arm on the same tokens: what the second loses more. A row for each part of the text."""
    rows = []
    for pair in pairs:
        first, second = labels.get(pair.arm, pair.arm), labels.get(pair.other, pair.other)
        for what, one in _parts(pair):
            rows.append((f"{second} less {first}", what, _difference(one), f"{one.tokens:,}"))
    notes = [note for pair in pairs if (note := _parting(pair, labels))]
    return table("arms | *where | >difference | >pairs", rows, UNIT, *notes, merge=True)


def factor_table(costs: Sequence[FactorCost], labels: Mapping[str, str]) -> Table:
    """The factors, the one first that loses least beyond the trained length."""
    rows = [
        (
            labels.get(cost.arm, cost.arm),
            "least" if cost.beyond is None else _difference(cost.beyond),
            "–" if cost.inside is None else _difference(cost.inside),
        )
        for cost in costs
    ]
    return table("factor | >beyond the trained length | >within it, above no scaling", rows, UNIT)


def _parts(pair: PairedLoss) -> Iterable[tuple[str, LossBin]]:
    if pair.probe == "copy":
        yield "repeated passages", pair.whole
    elif pair.inside is None and pair.beyond is None:
        yield "all", pair.whole
    if pair.inside is not None:
        yield "within the trained length", pair.inside
    if pair.beyond is not None:
        yield "beyond it", pair.beyond


def _parting(pair: PairedLoss, labels: Mapping[str, str]) -> str | None:
    if pair.parts_at is None:
        return None
    where = "from" if pair.probe == "loss" else "on passages further back than"
    first, second = labels.get(pair.arm, pair.arm), labels.get(pair.other, pair.other)
    return f"{second} and {first} part {where} {format_tokens(pair.parts_at)} tokens"


def _point(one: LossBin) -> LossPoint:
    return LossPoint((one.start + one.end) / 2, one.mean, one.low, one.high)


def _span(span: tuple[int, int]) -> str:
    return f"{span[0]:,} to {span[1]:,}"


def _cell(curve: LossCurve, span: tuple[int, int]) -> str:
    one = next((one for one in curve.bins if (one.start, one.end) == span), None)
    if one is None:
        return "–"
    at_least = "≥ " if one.bounds else ""
    return f"{at_least}{one.mean:.2f}{_interval(one, '.2f')}"


def _interval(one: LossBin, form: str) -> str:
    if one.low is None or one.high is None:
        return ""
    return f" ({one.low:{form}} to {one.high:{form}})"


def _difference(one: LossBin) -> str:
    return f"{one.mean:+.2f}{_interval(one, '+.2f')}"


def _notes(label: str, curve: LossCurve) -> Iterable[str]:
    """Where a curve leaves its own base, in words; nothing where it has none or only one bin."""
    if curve.rise is not None and curve.base is not None:
        rise = f"{curve.rise.mean:.2f} nats{_interval(curve.rise, '.2f')} above its base"
        yield f"{label}: from {format_tokens(curve.rise.start)} tokens on {rise} of {curve.base.mean:.2f}"
    elif curve.base is not None and len(curve.bins) > 1:
        tokens = plural(sum(one.tokens for one in curve.bins), "token")
        yield f"{label}: stays at its base of {curve.base.mean:.2f}, by {tokens} read"
