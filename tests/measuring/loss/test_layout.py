"""Which tokens are read."""

from __future__ import annotations

from ropewalk.measuring.loss.layout import Stop, copy_walk, passages_of, text_walk


def test_stops_stand_apart_and_none_goes_beyond_the_text() -> None:
    walk = text_walk("a", range(1000), per_stop=8)
    assert walk.stops == (Stop("loss", 256, 264), Stop("loss", 512, 520), Stop("loss", 768, 776))
    assert text_walk("a", range(775), per_stop=8).stops[-1] == Stop("loss", 512, 520)
    assert text_walk("a", range(200), per_stop=8).stops == ()


def test_a_text_that_is_read_at_once_is_read_whole_after_the_first_tile() -> None:
    walk = text_walk("a", range(256), per_stop=None)
    assert walk.stops == (Stop("loss", 64, 128), Stop("loss", 128, 192), Stop("loss", 192, 256))


def test_passages_are_repeated_at_the_end_of_a_text_that_stays_as_long() -> None:
    tokens = tuple(range(10_000))
    walk = copy_walk("a", tokens, per_stop=8)
    assert len(walk.tokens) == len(tokens)
    assert passages_of(10_000, per_stop=8) == len(walk.stops) == 24
    for stop in walk.stops:
        assert stop.distance is not None
        repeated = walk.tokens[stop.start : stop.end]
        assert repeated == walk.tokens[stop.start - stop.distance : stop.end - stop.distance]
        assert repeated == tuple(range(repeated[0], repeated[0] + 8))
    sources = [stop.start - (stop.distance or 0) - 16 for stop in walk.stops]
    assert (sources[0], sources[-1]) == (0, 10_000 - 24 * 24 - 24)  # from the start to what was kept
    distances = [stop.distance or 0 for stop in walk.stops]
    assert distances == sorted(distances, reverse=True)


def test_a_short_text_repeats_nothing() -> None:
    assert passages_of(1000, per_stop=8) == 0
    assert copy_walk("a", range(1000), per_stop=8).stops == ()
