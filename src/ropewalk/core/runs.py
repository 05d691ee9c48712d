"""Runs that were measured: kept, read, compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ropewalk.measuring.recall.tasks import Asked
    from ropewalk.measuring.records import Measurement, RecallCell, SpeedPoint, Trial
    from ropewalk.measuring.run_pair import RunPair
    from ropewalk.measuring.store import RunStore
    from ropewalk.planner.pace import Pace
    from ropewalk.planner.records import Compute


def open_store(path: Path | None = None) -> RunStore:
    """The file of runs, the user's own without a path; use it in a ``with`` block."""
    from ropewalk.measuring.store import RunStore

    return RunStore(path or default_store_path())


def default_store_path() -> Path:
    """The user's own file of runs."""
    from ropewalk.measuring.store import default_store_path as default

    return default()


def pair_runs(store: RunStore, run: str, other: str) -> RunPair:
    """Two stored runs side by side, on the prompts that both were asked and the tokens that both read."""
    from ropewalk.measuring.run_pair import pair_runs as pair

    return pair(
        store.load(run),
        store.load(other),
        trials=(store.trials(run), store.trials(other)),
        losses=(store.losses(run), store.losses(other)),
    )


def trials_csv(trials: Iterable[Trial]) -> str:
    """Trials as CSV with a header, one line each."""
    from ropewalk.measuring.store import trials_csv as csv_

    return csv_(trials)


def recalls_enough(measurement: Measurement) -> bool:
    """The verdict in one bit: finished, without an error, and at the longest length that was judged some arm
    recalls as much as the bar asks."""
    from ropewalk.measuring.compare import is_positive

    return is_positive(measurement)


def recall_cells(trials: Iterable[Trial]) -> tuple[RecallCell, ...]:
    """The cells of a grid that has these trials."""
    from ropewalk.measuring.recall.summary import cells

    return cells(trials)


def speed_points(trials: Iterable[Trial]) -> tuple[SpeedPoint, ...]:
    """The speed at each length of these trials."""
    from ropewalk.measuring.recall.summary import speed

    return speed(trials)


def asked(trial: Trial, depths: Sequence[float]) -> Asked | None:
    """What a trial asked, made again from its seed; None where the protocol has changed since."""
    from ropewalk.measuring.recall.tasks import asked as asked_

    return asked_(trial, depths)


def pace_of(compute: Compute | None, *, context_len: int) -> Pace:
    """What prompts of a plan's work take, learnt from those that are told to it."""
    from ropewalk.planner.pace import pace_of as pace

    return pace(compute, context_len=context_len)
