"""Trials to cells, pooled lengths and timings: all that a report shows of recall is derived here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ropewalk.measuring.recall.statistics import LengthScore, wilson
from ropewalk.measuring.records import JUDGED, RecallCell, SpeedPoint, Trial


def cells(trials: Iterable[Trial]) -> tuple[RecallCell, ...]:
    """One cell per task, length and depth, in the order in which they were first asked."""
    grouped: dict[tuple[str, int, float], list[Trial]] = {}
    for trial in trials:
        grouped.setdefault((trial.task, trial.length, trial.depth), []).append(trial)
    return tuple(_cell(group) for group in grouped.values())


def by_length(trials: Iterable[Trial]) -> tuple[LengthScore, ...]:
    """Hits among the judged trials of each length, all depths and tasks pooled; shortest first.

    A length at which nothing could be judged (refused, say) is absent.
    """
    judged: dict[int, list[Trial]] = {}
    for trial in trials:
        if trial.outcome in JUDGED:
            judged.setdefault(trial.length, []).append(trial)
    return tuple(LengthScore(length, hits(group), len(group)) for length, group in sorted(judged.items()))


def hits(trials: Iterable[Trial]) -> int:
    """How many of the trials are hits."""
    return sum(trial.outcome == "hit" for trial in trials)


def speed(trials: Iterable[Trial]) -> tuple[SpeedPoint, ...]:
    """The first prompt of each length that was evaluated whole, nothing of it from the cache."""
    points: dict[int, SpeedPoint] = {}
    for trial in trials:
        if trial.cached_tokens == 0 and trial.prefill_seconds and trial.length not in points:
            points[trial.length] = SpeedPoint(
                length=trial.length,
                prefill_seconds=trial.prefill_seconds,
                prefill_tokens_per_second=trial.length / trial.prefill_seconds,
                decode_tokens_per_second=trial.decode_tokens_per_second,
            )
    return tuple(points[length] for length in sorted(points))


def _cell(trials: Sequence[Trial]) -> RecallCell:
    first = trials[0]
    judged = [trial for trial in trials if trial.outcome in JUDGED]
    low, high = wilson(hits(judged), len(judged)) or (None, None)
    shares = [(trial.found or 0) / len(trial.expected) for trial in judged]
    return RecallCell(
        task=first.task,
        length=first.length,
        depth=first.depth,
        trials=len(trials),
        hits=hits(trials),
        outcomes=dict(Counter(trial.outcome for trial in trials)),
        low=low,
        high=high,
        score=sum(shares) / len(shares) if shares else None,
    )
