"""Which tokens of a text are read, and the passages that are repeated at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.measuring.loss.records import Read

APART = 256  # tokens from stop to stop: at every 64 the prefill takes three times as long (llama.cpp b11549)
TOKENS_PER_STOP = 8
MOST_PER_STOP = 64
TILE = 64  # where all tokens are read: so many neighbours are one block
LEAD = 16  # tokens of a repeated passage that only say which passage it is; those after them are read
WHOLE_PASSAGE = 32  # tokens read of each passage where a reading costs nothing
MAX_PASSAGES = 24
COPY_SHARE = 12  # at most one token of so many goes into repeated passages
MIN_PASSAGES = 6  # of fewer there is no interval


@dataclass(frozen=True, slots=True)
class Stop:
    """Consecutive tokens to be read, from ``start`` to before ``end``; ``distance`` as in ``LossSpan``."""

    probe: Read
    start: int
    end: int
    distance: int | None = None


@dataclass(frozen=True, slots=True)
class Walk:
    """Token ids and the stops in them, ascending, as one server reads them; ``text`` is their fingerprint."""

    text: str
    tokens: tuple[int, ...]
    stops: tuple[Stop, ...]


def stops_of(length: int, *, per_stop: int | None) -> tuple[Stop, ...]:
    """The stops in a text of so many tokens; ``per_stop`` as in :func:`text_walk`."""
    step, count = (TILE, TILE) if per_stop is None else (APART, per_stop)
    return tuple(Stop("loss", at, at + count) for at in range(step, length - count + 1, step))


def text_walk(text: str, tokens: Sequence[int], *, per_stop: int | None) -> Walk:
    """A text as it is: ``per_stop`` tokens at every stop, or all of them, in tiles, where that is None."""
    return Walk(text, tuple(tokens), stops_of(len(tokens), per_stop=per_stop))


def passages_of(length: int, *, per_stop: int | None) -> int:
    """How many passages are repeated at the end of a text of so many tokens; 0 where it is too short."""
    number = min(MAX_PASSAGES, length // (COPY_SHARE * _passage(per_stop)))
    return number if number >= MIN_PASSAGES else 0


def copy_walk(text: str, tokens: Sequence[int], *, per_stop: int | None) -> Walk:
    """A text whose end is replaced by passages from all of its length, so that it stays as long.

    Without tokens and stops where the text has no room for :data:`MIN_PASSAGES`.
    """
    size, number = _passage(per_stop), passages_of(len(tokens), per_stop=per_stop)
    if number == 0:
        return Walk(text, (), ())
    kept = list(tokens[: len(tokens) - number * size])
    sources = [index * (len(kept) - size) // (number - 1) for index in range(number)]
    repeated, stops = list(kept), []
    for source in sources:
        at = len(repeated)
        repeated += kept[source : source + size]
        stops.append(Stop("copy", at + LEAD, at + size, at - source))
    return Walk(text, tuple(repeated), tuple(stops))


def _passage(per_stop: int | None) -> int:
    return LEAD + (WHOLE_PASSAGE if per_stop is None else per_stop)
