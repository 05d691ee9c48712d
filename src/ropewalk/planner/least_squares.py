"""Timings and the work behind them become what each part of the work costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

_NOTHING = 1e-12  # of the sum of squares: a part that explains less of it is rounding
Rows = Sequence[Sequence[float]]


def nonnegative(rows: Rows, seconds: Sequence[float]) -> tuple[float, ...]:
    """The cost of each column, none below zero, with the least sum of squared relative errors.

    ``rows[i]`` is the work that took ``seconds[i]`` > 0. Errors are relative since timings scatter in
    proportion: short prompts would otherwise say nothing. Of three columns every subset is tried, so the
    answer is the optimum; with fewer rows than columns at most as many columns are used as there are rows.
    """
    scales = [max(column) for column in zip(*rows, strict=True)]
    used = [number for number, scale in enumerate(scales) if scale > 0]
    weighted = [
        [value / scale / taken if scale else 0.0 for value, scale in zip(row, scales, strict=True)]
        for row, taken in zip(rows, seconds, strict=True)
    ]
    best, least = {}, float(len(rows))
    for chosen in _subsets(used, most=len(rows)):
        part = [[row[number] for number in chosen] for row in weighted]
        costs = _solve(part)
        if costs is None or min(costs) < 0:
            continue
        error = sum((1 - _dot(row, costs)) ** 2 for row in part)
        if error < least - _NOTHING:
            best, least = dict(zip(chosen, costs, strict=True)), error
    return tuple(best[number] / scale if number in best else 0.0 for number, scale in enumerate(scales))


def _subsets(used: Sequence[int], *, most: int) -> Iterator[tuple[int, ...]]:
    for count in range(1, min(len(used), most) + 1):
        yield from combinations(used, count)


def _solve(rows: Rows) -> list[float] | None:
    """The least squares of ``rows`` times costs = 1 by its normal equations; None where they are singular."""
    columns = list(zip(*rows, strict=True))
    matrix = [[*(_dot(one, other) for other in columns), sum(one)] for one in columns]
    for place, pivot in enumerate(matrix):
        if pivot[place] <= _NOTHING * _dot(columns[place], columns[place]):
            return None
        for row in matrix[place + 1 :]:
            share = row[place] / pivot[place]
            row[:] = [value - share * above for value, above in zip(row, pivot, strict=True)]
    costs: list[float] = []
    for place in reversed(range(len(matrix))):
        known = _dot(matrix[place][place + 1 : -1], costs)
        costs.insert(0, (matrix[place][-1] - known) / matrix[place][place])
    return costs


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
