"""Recall cells as the grid that every report draws: lengths by arms by depths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ropewalk.measuring.recall.statistics import wilson
from ropewalk.measuring.records import JUDGED, ArmResult, Measurement, PairedRecall, RecallCell
from ropewalk.report.figures import amount, plural
from ropewalk.report.page import Tone
from ropewalk.serving.host.process_memory import MemorySample

_HEIGHTS = "▁▂▃▄▅▆▇"


class Mark(NamedTuple):
    """How an outcome is shown: a symbol that needs no colour, words, a tone."""

    symbol: str
    words: str
    tone: Tone


MARKS: dict[str, Mark] = {
    "hit": Mark("■", "hit", "bar"),
    "miss": Mark("·", "miss", "faint"),
    "wrong_needle": Mark("x", "wrong value", "warn"),
    "declined": Mark("d", "declined by the model", "warn"),
    "refused": Mark("–", "refused by the server", "cache"),
    "truncated": Mark("t", "answer cut off", "warn"),
    "lost_to_reasoning": Mark("r", "lost to reasoning", "warn"),
    "invalid": Mark("!", "invalid: other tokens evaluated than sent", "warn"),
    "error": Mark("e", "no answer", "warn"),
}
PARTIAL = Mark("▄", "part of the trials", "bar")


@dataclass(frozen=True, slots=True)
class Square:
    """One depth: its mark, hits and trials, and what to say about it in words."""

    mark: Mark
    hits: int
    trials: int
    depth: float
    words: str


@dataclass(frozen=True, slots=True)
class Strip:
    """One arm at one length: a square per depth, and all depths pooled."""

    squares: tuple[Square, ...]
    hits: int
    judged: int
    interval: tuple[float, float] | None
    refused: bool


@dataclass(frozen=True, slots=True)
class Heatmap:
    """One task: ``rows[length][arm]``, lengths ascending, arms as measured; None where an arm was not run."""

    task: str
    arms: tuple[ArmResult, ...]
    rows: dict[int, tuple[Strip | None, ...]]

    def marks(self) -> list[Mark]:
        """The marks that occur, hits first: the legend."""
        used = {s.mark for row in self.rows.values() for strip in row if strip for s in strip.squares}
        partial = [PARTIAL] if any(mark.words == PARTIAL.words for mark in used) else []
        return [mark for mark in MARKS.values() if mark in used] + partial


def heatmaps(measurement: Measurement) -> list[Heatmap]:
    """A heatmap per task, in the order in which the tasks were run."""
    tasks = dict.fromkeys(cell.task for arm in measurement.arms for cell in arm.cells)
    return [_heatmap(task, measurement.arms) for task in tasks]


def arm_name(arm: ArmResult) -> str:
    """``YaRN 1.5 (12,288)``: the arm and the context that its server serves."""
    return f"{arm.label} ({arm.context_reported or arm.context_planned:,})"


def _heatmap(task: str, arms: Sequence[ArmResult]) -> Heatmap:
    cells = [[cell for cell in arm.cells if cell.task == task] for arm in arms]
    lengths = sorted({cell.length for own in cells for cell in own})
    rows = {
        length: tuple(strip_of([cell for cell in own if cell.length == length]) for own in cells)
        for length in lengths
    }
    return Heatmap(task, tuple(arms), rows)


def strip_of(cells: Sequence[RecallCell]) -> Strip | None:
    """The cells of one arm, length and task, pooled; None where nothing was asked."""
    if not cells:
        return None
    squares = tuple(_square(cell) for cell in sorted(cells, key=lambda cell: cell.depth))
    hits = sum(cell.hits for cell in cells)
    judged = sum(_judged(cell) for cell in cells)
    refused = all(set(cell.outcomes) == {"refused"} for cell in cells)
    return Strip(squares, hits, judged, wilson(hits, judged), refused)


def _judged(cell: RecallCell) -> int:
    return sum(count for outcome, count in cell.outcomes.items() if outcome in JUDGED)


def _square(cell: RecallCell) -> Square:
    told = ", ".join(f"{count} {MARKS[outcome].words}" for outcome, count in _counts(cell).most_common())
    return Square(mark_of(cell), cell.hits, cell.trials, cell.depth, f"at {cell.depth:.0%}: {told}")


def mark_of(cell: RecallCell) -> Mark:
    """One outcome's own mark; a height where some trials hit; the commonest failure where none did."""
    if 0 < cell.hits < cell.trials:
        height = _HEIGHTS[cell.hits * len(_HEIGHTS) // cell.trials]
        return PARTIAL._replace(symbol=height)
    counts = _counts(cell)
    return MARKS[counts.most_common(1)[0][0]] if counts else MARKS["error"]


def _counts(cell: RecallCell) -> Counter[str]:
    return Counter({outcome: count for outcome, count in cell.outcomes.items() if count})


def pooled(strip: Strip) -> str:
    """``3/5 23–88%``: hits of judged trials and the 95 % interval, or why there is none."""
    if strip.interval is None:
        return "refused" if strip.refused else "not judged"
    low, high = strip.interval
    return f"{strip.hits}/{strip.judged} {low * 100:.0f}–{high * 100:.0f}%"


def lengths_of_speed(arms: Iterable[ArmResult]) -> list[int]:
    """All prompt lengths that any arm was timed at."""
    return sorted({point.length for arm in arms for point in arm.speed})


def visible_drop(pair: PairedRecall) -> str:
    """What so many pairs can show at all: without it, that no difference was seen says nothing."""
    drop = pair.visible_drop
    least = "no drop" if drop is None else f"a drop of {drop * 100:.0f} points or more"
    return f"{plural(pair.pairs, 'pair')}: {least} from 95 % recall would be seen in four runs of five"


MOMENTS = {"loaded": "after loading", "ubatch": "a full batch", "longest": "the longest prompt"}


def moment_rows(arms: Iterable[ArmResult], unit: str) -> list[list[str]]:
    """Anonymous, file-backed and device memory at the named moments, a row per arm that was seen."""
    rows = []
    for arm in arms:
        named = {sample.moment: sample for sample in arm.samples if sample.moment in MOMENTS}
        if named:
            rows.append([arm.label, *(_held(named.get(moment), unit) for moment in MOMENTS)])
    return rows


def moments_head(arms: Iterable[ArmResult]) -> str:
    """What the figures of :func:`moment_rows` are."""
    has_gpu = any(sample.gpu_bytes is not None for arm in arms for sample in arm.samples)
    return f"anonymous + files{' + GPU' if has_gpu else ''}"


def _held(sample: MemorySample | None, unit: str) -> str:
    if sample is None:
        return "–"
    parts = (sample.anon_bytes, sample.file_bytes, sample.gpu_bytes)
    return " + ".join(amount(count, unit) for count in parts if count is not None)
