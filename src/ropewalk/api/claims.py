"""Which runs a worker holds: a lock on a file for each, which the system lets go however the worker ends.

A run that is stored as running while nobody holds its file was cut off: killed, or by a power failure. A
second file for each tells which runs the service itself was measuring when it ended, so that the next one
goes on with them.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

from ropewalk.errors import RunActiveError
from ropewalk.measuring.store import RunStore

MAX_ATTEMPTS = 3  # a measurement that takes the service down with it is not begun for ever


def claims_dir(store: Path) -> Path:
    """Where the files are: beside the store. Workers run in it, so that no name of a client's is a path."""
    return store.parent / "jobs"


@contextlib.contextmanager
def claim(store: Path, run_id: str) -> Iterator[None]:
    """Hold a run. Raises :class:`RunActiveError` where another process does."""
    path = claims_dir(store) / f"{run_id}.lock"
    with path.open("w") as file:
        if not _lock(file):
            raise RunActiveError(f"run {run_id} is being measured", where={"run": run_id})
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def mark_lost_runs(store: Path) -> None:
    """Store as interrupted what was cut off. Raises :class:`RunStoreError`."""
    for path in claims_dir(store).glob("*.lock"):
        with path.open("w") as file:
            if _lock(file):
                _mark(store, path.stem)
                path.unlink(missing_ok=True)


def is_held(store: Path, run_id: str) -> bool:
    """Whether a worker holds the run."""
    path = claims_dir(store) / f"{run_id}.lock"
    if not path.is_file():
        return False
    with path.open("w") as file:
        return not _lock(file)


def mark_pending(store: Path, run_id: str) -> None:
    """A measurement is under way: if nobody says :func:`forget_left`, the service has ended before it."""
    with _left(store, run_id).open("ab") as file:
        file.write(b".")  # as many as it was begun


def forget_left(store: Path, run_id: str) -> None:
    """It has ended, or was stopped by a client."""
    _left(store, run_id).unlink(missing_ok=True)


def left_runs(store: Path) -> list[str]:
    """The runs that an earlier service left, less those that have ended with it :data:`MAX_ATTEMPTS`
    times."""
    found = []
    for path in sorted(claims_dir(store).glob("*.left")):
        if path.stat().st_size < MAX_ATTEMPTS:
            found.append(path.stem)
        else:
            path.unlink()
    return found


def _left(store: Path, run_id: str) -> Path:
    return claims_dir(store) / f"{run_id}.left"


def _mark(store: Path, run_id: str) -> None:
    with RunStore(store) as runs:
        if run_id in (run.run_id for run in runs.runs() if run.status == "running"):
            runs.update(replace(runs.frame(run_id), status="interrupted"))


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
