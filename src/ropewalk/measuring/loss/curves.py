"""Spans as they were read become curves over position or distance, and pairs of arms on the same tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ropewalk.measuring.loss.records import LossBin, LossCurve, LossSpan, PairedLoss, Read
from ropewalk.measuring.loss.statistics import MIN_BLOCKS, Block, Estimate, leaves_at, mean_of, rise_of

BIN_TOKENS = 2048  # eight stops
MOST_BINS = 16
READS: tuple[Read, ...] = ("loss", "copy")


@dataclass(frozen=True, slots=True)
class _Place:
    """A block and where it stands: its position, or the distance of its passage."""

    at: int
    block: Block
    bounds: int = 0


def curves(spans: Sequence[LossSpan], *, trained_len: int | None) -> tuple[LossCurve, ...]:
    """The curves of one arm, all of its texts pooled: one of each probe that was read."""
    found = []
    for probe in READS:
        places = [_place(span) for span in spans if span.probe == probe]
        if places:
            found.append(_curve(probe, places, trained_len=trained_len))
    return tuple(found)


def paired_losses(
    first: Sequence[LossSpan], second: Sequence[LossSpan], *, trained_len: int | None
) -> tuple[PairedLoss, ...]:
    """Two arms on the tokens that both read at the same position of the same text, one record a probe.

    A pair of two lower bounds says nothing and is left out; one of which one loss is a bound counts at that
    bound, and is counted in ``bounds``.
    """
    found = []
    for probe in READS:
        ours, theirs = ([span for span in spans if span.probe == probe] for spans in (first, second))
        places = _differences(ours, theirs)
        if places:
            found.append(_pair(probe, (ours[0].arm, theirs[0].arm), places, trained_len=trained_len))
    return tuple(found)


def bin_width(longest: int) -> int:
    """Positions of a bin: 2,048, doubled for long texts until 16 bins hold all."""
    width = BIN_TOKENS
    while width * MOST_BINS < longest:
        width *= 2
    return width


def _curve(probe: Read, places: Sequence[_Place], *, trained_len: int | None) -> LossCurve:
    groups = _grouped(probe, places)
    bins = tuple(_bin(*group) for group in groups)
    if probe == "copy" or trained_len is None:
        return LossCurve(probe, bins)
    base = _base(groups, trained_len)
    blocks = _blocks(base)
    later = [group for group in groups if base and group[0] >= base[-1][1]]
    left = leaves_at([(group[0], rise_of(_blocks([group]), blocks)) for group in later])
    raised = [group for group in later if left is not None and group[0] >= left]
    return LossCurve(
        probe,
        bins,
        base=_pooled(base),
        leaves_at=left,
        rise=_over(raised, rise_of(_blocks(raised), blocks)) if raised else None,
    )


_Group = tuple[int, int, Sequence[_Place]]  # from, to before, what stands there


def _base(groups: Sequence[_Group], trained_len: int) -> list[_Group]:
    """The bins within the trained length but the first, whose tokens have little before them."""
    inside = [group for group in groups if group[1] <= trained_len]
    return inside[1:] or inside


def _grouped(probe: Read, places: Sequence[_Place]) -> list[_Group]:
    ordered = sorted(places, key=lambda place: place.at)
    return _by_distance(ordered) if probe == "copy" else _by_position(ordered)


def _by_position(places: Sequence[_Place]) -> list[_Group]:
    width = bin_width(places[-1].at)
    grouped: dict[int, list[_Place]] = {}
    for place in places:
        grouped.setdefault(place.at // width * width, []).append(place)
    return [(start, start + width, own) for start, own in grouped.items()]


def _by_distance(places: Sequence[_Place]) -> list[_Group]:
    """Passages by their distance, as many in each bin as an interval needs; the last takes the rest."""
    number = max(1, len(places) // MIN_BLOCKS)
    cuts = [MIN_BLOCKS * index for index in range(number)] + [len(places)]
    groups = [places[start:end] for start, end in pairwise(cuts)]
    return [(group[0].at, group[-1].at + 1, group) for group in groups]


def _pair(
    probe: Read, arms: tuple[str, str], places: Sequence[_Place], *, trained_len: int | None
) -> PairedLoss:
    groups = _grouped(probe, places)
    inside, beyond = _parted(probe, places, trained_len)
    differences = [(group[0], mean_of(_blocks([group]))) for group in groups]
    return PairedLoss(
        probe,
        *arms,
        pairs=sum(place.block.count for place in places),
        bins=tuple(_bin(*group) for group in groups),
        whole=_all_of(places),
        inside=_all_of(inside) if inside else None,
        beyond=_all_of(beyond) if beyond else None,
        parts_at=_parts_at(differences),
        is_equal=bool(inside) and all(place.block.total == 0 for place in inside),
    )


def _parted(
    probe: Read, places: Sequence[_Place], trained_len: int | None
) -> tuple[list[_Place], list[_Place]]:
    """Those within the trained length, and those beyond it. Repeated passages stand at the end, all of them
    beyond it or none, and are not parted."""
    if probe == "copy" or trained_len is None:
        return [], []
    return (
        [place for place in places if place.at < trained_len],
        [place for place in places if place.at >= trained_len],
    )


def _parts_at(differences: Sequence[tuple[int, Estimate | None]]) -> int | None:
    """Where the arms part for good: from there on every bin differs in the same direction."""
    turned = [(at, one and one.turned) for at, one in differences]
    found = (leaves_at(differences), leaves_at(turned))
    return next((at for at in found if at is not None), None)


def _differences(first: Sequence[LossSpan], second: Sequence[LossSpan]) -> list[_Place]:
    known = _by_token(second)
    places = []
    for span in first:
        pairs = []
        for index, (token, loss) in enumerate(zip(span.tokens, span.losses, strict=True)):
            other = known.get((span.text, span.distance, span.start + index, token))
            if other is not None and not (other[1] and index in span.bounds):
                pairs.append((other[0] - loss, other[1] or index in span.bounds))
        if pairs:
            total = sum(difference for difference, _ in pairs)
            at = span.start if span.distance is None else span.distance
            places.append(_Place(at, Block(total, len(pairs)), sum(bound for _, bound in pairs)))
    return places


def _by_token(spans: Iterable[LossSpan]) -> Mapping[tuple[str, int | None, int, int], tuple[float, bool]]:
    return {
        (span.text, span.distance, span.start + index, token): (loss, index in span.bounds)
        for span in spans
        for index, (token, loss) in enumerate(zip(span.tokens, span.losses, strict=True))
    }


def _place(span: LossSpan) -> _Place:
    at = span.start if span.distance is None else span.distance
    return _Place(at, Block(sum(span.losses), len(span.losses)), len(span.bounds))


def _blocks(groups: Iterable[_Group]) -> list[Block]:
    return [place.block for _, _, places in groups for place in places]


def _bin(start: int, end: int, places: Sequence[_Place]) -> LossBin:
    estimate = mean_of([place.block for place in places])
    assert estimate is not None  # noqa: S101 - a bin is made of what stands in it
    tokens = sum(place.block.count for place in places)
    return LossBin(
        start, end, tokens, estimate.mean, estimate.low, estimate.high, sum(place.bounds for place in places)
    )


def _pooled(groups: Sequence[_Group]) -> LossBin | None:
    if not groups:
        return None
    places = [place for _, _, own in groups for place in own]
    return _bin(groups[0][0], groups[-1][1], places)


def _all_of(places: Sequence[_Place]) -> LossBin:
    ordered = sorted(places, key=lambda place: place.at)
    return _bin(ordered[0].at, ordered[-1].at + 1, ordered)


def _over(groups: Sequence[_Group], rise: Estimate | None) -> LossBin | None:
    if rise is None:
        return None
    whole = _pooled(groups)
    assert whole is not None  # noqa: S101
    return replace(whole, mean=rise.mean, low=rise.low, high=rise.high)
