"""Spans to curves and pairs: binning, bases, where arms part, lower bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ropewalk.measuring.loss.curves import bin_width, curves, paired_losses
from ropewalk.measuring.loss.records import LossSpan


def spans_of(arm: str, loss: Callable[[int], float], *, length: int = 12_288) -> list[LossSpan]:
    """A span of two tokens every 256 positions; ``loss`` by position."""
    return [
        LossSpan(
            key=f"{arm}-{start}",
            arm=arm,
            probe="loss",
            text="t",
            start=start,
            tokens=(start, start + 1),
            losses=(loss(start), loss(start)),
        )
        for start in range(256, length, 256)
    ]


def flat(position: int) -> float:
    return 2.0 + position % 512 / 512


def broken(position: int) -> float:
    return flat(position) + (1.5 if position >= 10_240 else 0.0)


def test_a_flat_curve_stays_at_its_base() -> None:
    (curve,) = curves(spans_of("yarn:1.5", flat), trained_len=8192)
    assert [(one.start, one.end, one.tokens) for one in curve.bins][:2] == [(0, 2048, 14), (2048, 4096, 16)]
    assert len(curve.bins) == 6
    assert curve.base is not None
    assert (curve.base.start, curve.base.end, curve.base.mean) == (2048, 8192, 2.25)
    assert curve.leaves_at is None
    assert curve.rise is None


def test_a_broken_curve_leaves_its_base_where_it_breaks() -> None:
    (curve,) = curves(spans_of("unscaled", broken), trained_len=8192)
    assert curve.leaves_at == 10_240
    assert curve.rise is not None
    assert (curve.rise.start, curve.rise.end, curve.rise.mean) == (10_240, 12_288, 1.5)
    assert curve.rise.low is not None
    assert curve.rise.low > 1


def test_pairs_take_the_text_out_of_the_difference() -> None:
    """The text varies by half a nat; the pairs differ by nothing but the arms."""
    (pair,) = paired_losses(spans_of("yarn:1.5", flat), spans_of("unscaled", broken), trained_len=8192)
    assert (pair.arm, pair.other, pair.pairs) == ("yarn:1.5", "unscaled", 94)
    assert pair.inside is not None
    assert pair.beyond is not None
    assert (pair.inside.mean, pair.inside.low, pair.inside.high) == (0.0, 0.0, 0.0)
    assert pair.is_equal
    assert pair.beyond.mean == 0.75  # eight of sixteen stops beyond 8,192
    assert [one.mean for one in pair.bins] == [0, 0, 0, 0, 0, 1.5]
    assert pair.parts_at == 10_240


def test_arms_part_whichever_of_them_is_the_first() -> None:
    (pair,) = paired_losses(spans_of("unscaled", broken), spans_of("yarn:1.5", flat), trained_len=8192)
    assert pair.parts_at == 10_240
    assert pair.beyond is not None
    assert pair.beyond.mean == -0.75


def test_only_the_same_token_at_the_same_position_of_the_same_text_is_a_pair() -> None:
    ours = spans_of("a", flat, length=600)
    assert paired_losses(ours, [replace(s, text="u") for s in ours], trained_len=None) == ()
    assert paired_losses(ours, [replace(s, tokens=(7, 8)) for s in ours], trained_len=None) == ()
    assert paired_losses(ours, [replace(s, distance=5) for s in ours], trained_len=None) == ()
    half = [replace(s, tokens=(s.tokens[0], 7), arm="b") for s in ours]
    (pair,) = paired_losses(ours, half, trained_len=None)
    assert pair.pairs == 2


def test_tiles_and_stops_of_two_engines_are_paired_token_by_token() -> None:
    stops = [LossSpan("1", "a", "loss", "t", 256, (5, 6), (1.0, 2.0))]
    tile = LossSpan("2", "b", "loss", "t", 192, tuple(range(100, 164)), (0.5,) * 64)
    tiles = [tile, replace(tile, start=256, tokens=(5, 6, 7), losses=(1.25, 2.25, 9.0))]
    (pair,) = paired_losses(stops, tiles, trained_len=8192)
    assert pair.pairs == 2
    assert pair.inside is not None
    assert pair.inside.mean == 0.25


def test_a_pair_of_two_lower_bounds_says_nothing_and_one_is_told() -> None:
    first = [LossSpan("1", "a", "loss", "t", 256, (5, 6), (9.0, 9.0), (0, 1))]
    second = [LossSpan("2", "b", "loss", "t", 256, (5, 6), (9.5, 3.0), (0,))]
    (pair,) = paired_losses(first, second, trained_len=8192)
    assert pair.pairs == 1
    assert pair.inside is not None
    assert (pair.inside.mean, pair.inside.bounds) == (-6.0, 1)
    (curve,) = curves(first, trained_len=8192)
    assert curve.bins[0].bounds == 2


def test_copies_are_binned_by_distance_in_sixes() -> None:
    spans = [
        LossSpan(str(n), "a", "copy", "t", 9000 + n, (n,), (0.1 if d < 5000 else 3.0,), distance=d)
        for n, d in enumerate(range(500, 9500, 500))
    ]
    (curve,) = curves(spans, trained_len=8192)
    assert [(one.start, one.end, one.tokens) for one in curve.bins] == [
        (500, 3001, 6), (3500, 6001, 6), (6500, 9001, 6)
    ]  # fmt: skip
    assert [round(one.mean, 9) for one in curve.bins] == [0.1, 1.55, 3.0]
    assert curve.leaves_at is None  # by distance there is no trained length


def test_bins_grow_with_the_text() -> None:
    assert [bin_width(n) for n in (500, 32_768, 32_769, 131_072)] == [2048, 2048, 4096, 8192]
