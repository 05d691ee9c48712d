"""Means of losses with intervals that respect neighbours, and where a curve leaves its own base.

The losses of neighbouring tokens are alike, so a block of neighbours is what is drawn again, not a token (H.
Kuensch, Annals of Statistics 17, 1989; here the blocks do not overlap, as in E. Carlstein, Annals of
Statistics 14, 1986).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from random import Random
from statistics import NormalDist

from ropewalk.measuring.recall.statistics import Z_95

RESAMPLES = 1000
MIN_BLOCKS = 6  # of fewer, no resampling gives an interval that holds what it says
LEAST_RISE = 0.1  # nats per token: less than this is seen between the parts of any natural text
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Block:
    """Losses, or differences of losses, of neighbouring tokens: their sum in nats and their number."""

    total: float
    count: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean per token in nats with its 95 % interval; the interval is None for fewer than six blocks."""

    mean: float
    low: float | None
    high: float | None

    @property
    def turned(self) -> Estimate:
        """The same with the other sign."""
        if self.low is None or self.high is None:
            return Estimate(-self.mean, None, None)
        return Estimate(-self.mean, -self.high, -self.low)


def mean_of(blocks: Sequence[Block]) -> Estimate | None:
    """The mean of all tokens and its block-bootstrap interval; None without tokens."""
    if not blocks:
        return None
    if len(blocks) < MIN_BLOCKS:
        return Estimate(_mean(blocks), None, None)
    return _interval(_mean(blocks), _resampled(blocks, seed="mean"), blocks=len(blocks))


def rise_of(blocks: Sequence[Block], base: Sequence[Block]) -> Estimate | None:
    """How much higher the mean of ``blocks`` is than that of ``base``, other positions of the same arm."""
    if not blocks or not base:
        return None
    rise = _mean(blocks) - _mean(base)
    fewest = min(len(blocks), len(base))
    if fewest < MIN_BLOCKS:
        return Estimate(rise, None, None)
    pairs = zip(_resampled(blocks, seed="rise"), _resampled(base, seed="base"), strict=True)
    return _interval(rise, [one - other for one, other in pairs], blocks=fewest)


def leaves_at(rises: Sequence[tuple[int, Estimate | None]]) -> int | None:
    """The position from which on every bin is raised: its interval above zero, its mean by ``LEAST_RISE``.

    ``rises`` are the starts of the bins beyond the base, ascending, each with its rise. None where the last
    bin is not raised.
    """
    left: int | None = None
    for start, rise in reversed(rises):
        if rise is None or rise.low is None or rise.low <= 0 or rise.mean < LEAST_RISE:
            break
        left = start
    return left


@lru_cache
def student_quantile(degrees: int) -> float:
    """The 97.5 % quantile of Student's t, to 0.001 from five degrees of freedom on.

    Cornish and Fisher's expansion (Abramowitz and Stegun, 26.7.5).
    """
    z = Z_95
    terms: tuple[float, ...] = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(degrees) ** power for power, term in enumerate(terms, start=1))


def _mean(blocks: Sequence[Block]) -> float:
    return sum(block.total for block in blocks) / sum(block.count for block in blocks)


def _resampled(blocks: Sequence[Block], *, seed: str) -> list[float]:
    """Means of as many blocks as there are, drawn with replacement; the same for the same seed."""
    draw, number = Random(seed).random, len(blocks)  # noqa: S311  resampling, not secrets
    pairs = [(block.total, block.count) for block in blocks]
    means = []
    for _ in range(RESAMPLES):
        chosen = [pairs[int(draw() * number)] for _ in range(number)]
        means.append(sum(total for total, _ in chosen) / sum(count for _, count in chosen))
    return means


def _interval(mean: float, resampled: Sequence[float], *, blocks: int) -> Estimate:
    """The expanded percentile interval: plain percentiles are too narrow for few blocks (T. Hesterberg, The
    American Statistician 69, 2015, 4.3)."""
    tail = _NORMAL.cdf(-sqrt(blocks / (blocks - 1)) * student_quantile(blocks - 1))
    ordered = sorted(resampled)
    skipped = int(tail * len(ordered))
    return Estimate(mean, ordered[skipped], ordered[-1 - skipped])
