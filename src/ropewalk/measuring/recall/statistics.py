"""Counts of hits to what may be claimed from them: intervals, stopping, pairs, effective context.

Pure functions on integers; nothing is interpolated between lengths that were not run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import comb, exp, lgamma, log, sqrt
from typing import Literal

Z_95 = 1.959963984540054  # two-sided 95 % quantile of the normal distribution

# Sequential test of one length: a recall of 75 % or less is a failure, 92 % or more a pass.
SPRT_FAIL = 0.75
SPRT_PASS = 0.92
SPRT_ERROR = 0.05  # both kinds
SPRT_CAP = 60

# The bar of an absolute claim; 85 % is about RULER's own (Llama-2-7B at 4K: 85.6, NVIDIA/RULER README).
BAR_LOW = 0.75
BAR_POINT = 0.85
BAR_RELATIVE = 0.85  # of the model's own base, as in NoLiMa (Adobe Research, README)

SprtState = Literal["pass", "fail", "open"]


@dataclass(frozen=True, slots=True)
class LengthScore:
    """Hits among the judged trials of one length."""

    length: int
    hits: int
    trials: int

    @property
    def share(self) -> float:
        """Hits per judged trial; 0 where nothing was judged."""
        return self.hits / self.trials if self.trials else 0.0


def wilson(hits: int, trials: int) -> tuple[float, float] | None:
    """Wilson's 95 % interval of a share; None without trials (E. B. Wilson, JASA 22, 1927)."""
    if trials == 0:
        return None
    share, z2 = hits / trials, Z_95**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = Z_95 * sqrt(share * (1 - share) / trials + z2 / (4 * trials**2)) / (1 + z2 / trials)
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return (0.0 if hits == 0 else low), (1.0 if hits == trials else high)  # exact, where rounding is not


def sprt(hits: int, misses: int) -> SprtState:
    """Wald's sequential test of ``SPRT_FAIL`` against ``SPRT_PASS``; ``open`` asks for more trials.

    All hits pass after 15 trials, all misses fail after 3. The caller stops at ``SPRT_CAP``: a length
    that is still open there is undecided.
    """
    ratio = hits * log(SPRT_PASS / SPRT_FAIL) + misses * log((1 - SPRT_PASS) / (1 - SPRT_FAIL))
    bound = log((1 - SPRT_ERROR) / SPRT_ERROR)
    if ratio >= bound:
        return "pass"
    return "fail" if ratio <= -bound else "open"


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided p of the discordant pairs under "both arms recall alike"."""
    discordant = only_first + only_second
    tail = sum(comb(discordant, k) for k in range(min(only_first, only_second) + 1))
    return float(min(1.0, 2 * tail / 2**discordant))


def drop_power(pairs: int, *, base: float, drop: float) -> float:
    """Chance that ``pairs`` pairs show a drop from ``base`` to ``base - drop`` at McNemar p < 0.05.

    Hits of the two arms are taken as independent, which understates the power where both arms miss the
    same questions.
    """
    lost, won = base * (1 - (base - drop)), (1 - base) * (base - drop)
    return sum(
        _multinomial(pairs, first, second, lost, won)
        for first in range(pairs + 1)
        for second in range(min(first, pairs - first + 1))
        if mcnemar(first, second) < 0.05
    )


@lru_cache
def smallest_detectable_drop(pairs: int, *, base: float = 0.95, power: float = 0.8) -> float | None:
    """The smallest drop in steps of 5 points that ``pairs`` pairs find with ``power``; None if none.

    60 pairs find 20 points, 30 pairs 35: below this, "no drop was seen" says nothing.
    """
    for points in range(5, round(base * 100) + 1, 5):
        if drop_power(pairs, base=base, drop=points / 100) >= power:
            return points / 100
    return None


def effective_absolute(scores: Iterable[LengthScore]) -> int | None:
    """The longest length run whose share is at least 0.85 and whose Wilson lower bound at least 0.75."""
    passed = [score.length for score in scores if _passes(score)]
    return max(passed, default=None)


def effective_relative(scores: Iterable[LengthScore], *, base: LengthScore | None) -> int | None:
    """The longest length run that keeps 85 % of ``base``; None where the base itself recalls nothing."""
    if base is None or base.hits == 0:
        return None
    kept = [score.length for score in scores if score.trials and score.share >= BAR_RELATIVE * base.share]
    return max(kept, default=None)


def _passes(score: LengthScore) -> bool:
    interval = wilson(score.hits, score.trials)
    return interval is not None and interval[0] >= BAR_LOW and score.share >= BAR_POINT


def _multinomial(n: int, first: int, second: int, p_first: float, p_second: float) -> float:
    """Probability of ``first`` and ``second`` discordant pairs among ``n``."""
    rest = n - first - second
    p_rest = 1 - p_first - p_second
    counts = ((first, p_first), (second, p_second), (rest, p_rest))
    if any(count and p <= 0 for count, p in counts):
        return 0.0
    logs = lgamma(n + 1) + sum(count * log(p) - lgamma(count + 1) for count, p in counts if count)
    return exp(logs)
