"""Two runs side by side: what was set otherwise, every cell that either has, and the prompts of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ropewalk.measuring.compare import paired_recall
from ropewalk.measuring.loss.curves import paired_losses
from ropewalk.measuring.loss.records import LossSpan, PairedLoss
from ropewalk.measuring.records import Measurement, PairedRecall, RecallCell, Trial


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that the two runs do not share: with it their figures compare only so far."""

    field: str
    one: Any
    other: Any


@dataclass(frozen=True, slots=True)
class CellPair:
    """One arm, task, length and depth in both runs; None where a run does not have it."""

    arm: str
    task: str
    length: int
    depth: float
    one: RecallCell | None
    other: RecallCell | None


@dataclass(frozen=True, slots=True)
class RunPair:
    """Two runs, what differs in how they were made, and their cells in the order of the arms.

    ``pairs`` are arms of one name on prompts that both runs asked, token for token: the first of each pair is
    that of ``one``. So are engines compared, and quantisations, where the tokenizer is the same. ``losses``
    are the same of the tokens that both runs read.
    """

    one: Measurement
    other: Measurement
    differences: tuple[Difference, ...]
    cells: tuple[CellPair, ...]
    pairs: tuple[PairedRecall, ...] = ()
    losses: tuple[PairedLoss, ...] = ()
    schema: str = "ropewalk.runpair/1"


def pair_runs(
    one: Measurement,
    other: Measurement,
    *,
    trials: tuple[Sequence[Trial], Sequence[Trial]],
    losses: tuple[Sequence[LossSpan], Sequence[LossSpan]] = ((), ()),
) -> RunPair:
    """Lay two runs side by side, each with its trials and losses; arms are matched by name."""
    return RunPair(
        one,
        other,
        tuple(_differences(one, other)),
        tuple(_cells(one, other)),
        tuple(_pairs(one, other, *trials)),
        tuple(_losses(one, other, *losses)),
    )


def _losses(
    one: Measurement, other: Measurement, first: Sequence[LossSpan], second: Sequence[LossSpan]
) -> Iterator[PairedLoss]:
    shared = {arm.arm for arm in other.arms}
    for name in (arm.arm for arm in one.arms if arm.arm in shared):
        ours, theirs = ([span for span in spans if span.arm == name] for spans in (first, second))
        yield from paired_losses(ours, theirs, trained_len=one.trained_len)


def _pairs(
    one: Measurement, other: Measurement, first: Sequence[Trial], second: Sequence[Trial]
) -> Iterator[PairedRecall]:
    shared = {arm.arm for arm in other.arms}
    for name in (arm.arm for arm in one.arms if arm.arm in shared):
        ours, theirs = ([trial for trial in trials if trial.arm == name] for trials in (first, second))
        for length in sorted({trial.length for trial in ours}):
            if pair := paired_recall(ours, theirs, length=length):
                yield pair


def _differences(one: Measurement, other: Measurement) -> Iterator[Difference]:
    first, second = _conditions(one), _conditions(other)
    for field in dict.fromkeys((*first, *second)):
        if first.get(field) != second.get(field):
            yield Difference(field, first.get(field), second.get(field))


def _conditions(run: Measurement) -> dict[str, Any]:
    launches = [arm.launch for arm in run.arms if arm.launch]
    engines = dict.fromkeys(f"{launch.engine} {launch.engine_version or ''}".rstrip() for launch in launches)
    return {
        "weights": run.checkpoint_fingerprint,
        "engine": list(engines),
        "cpu": run.machine.cpu,
        "cores": run.machine.cores,
        "devices": list(run.machine.devices),
        "target_len": run.target_len,
        **run.settings,
    }


def _cells(one: Measurement, other: Measurement) -> Iterator[CellPair]:
    first, second = _by_place(one), _by_place(other)
    for arm, task, length, depth in dict.fromkeys((*first, *second)):
        place = (arm, task, length, depth)
        yield CellPair(*place, first.get(place), second.get(place))


def _by_place(run: Measurement) -> dict[tuple[str, str, int, float], RecallCell]:
    return {(arm.arm, cell.task, cell.length, cell.depth): cell for arm in run.arms for cell in arm.cells}
