"""The pattern of a model's layers in words and as a strip of one character per layer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ropewalk.inspector.layer_kinds import LayerGroup

# One character per layer; no two kinds look alike without colour.
GLYPHS = {
    "full": "█", "sliding": "▒", "chunked": "▚", "latent": "▓",
    "recurrent": "~", "cross": "x", "shared": "=", "none": "·",
}  # fmt: skip
Run = tuple[int, str]
_MOST_RUNS = 8  # a longer list of runs tells less than the counts


def sequence(groups: Sequence[LayerGroup]) -> list[LayerGroup]:
    """The group of each layer, by index."""
    placed = {index: group for group in groups for index in group.indices}
    return [placed[index] for index in sorted(placed)]


def strip(groups: Sequence[LayerGroup]) -> str:
    """One character per layer, in order."""
    return "".join(GLYPHS[group.kind] for group in sequence(groups))


def words(groups: Sequence[LayerGroup]) -> str:
    """``5 sliding 1,024 + 1 full, x 10, + 2 sliding 1,024``: the shortest period and what is left over."""
    runs = [(len(list(same)), name) for name, same in groupby(sequence(groups), key=_name)]
    period, times = _period(runs)
    if period > _MOST_RUNS:
        return f"{_join([(group.count, _name(group)) for group in groups])}, in no regular order"
    rest = runs[period * times :]
    text = _join(runs[:period]) + (f", x {times}" if times > 1 else "")
    return f"{text}, + {_join(rest)}" if rest else text


def _name(group: LayerGroup) -> str:
    kind = group.kind if group.rotary is not False else f"{group.kind} without rope"
    return f"{kind} {group.window:,}" if group.window else kind


def _period(runs: Sequence[Run]) -> tuple[int, int]:
    """The shortest period that repeats at least twice from the start, and how often it does."""
    for period in range(1, len(runs) // 2 + 1):
        times = 1
        while runs[period * times : period * (times + 1)] == runs[:period]:
            times += 1
        if times > 1 and len(runs) - period * times <= period:
            return period, times
    return len(runs), 1


def _join(runs: Sequence[Run]) -> str:
    return " + ".join(f"{count} {name}" for count, name in runs)
