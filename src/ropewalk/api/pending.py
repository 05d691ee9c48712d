"""Which runs the service is measuring: a file for each beside the store, by which the next service resumes
those that were under way when this one ended. Who measures a run at the moment is in the store itself."""

from __future__ import annotations

from pathlib import Path

MAX_ATTEMPTS = 3  # a measurement that takes the service down with it is not begun for ever


def jobs_dir(store: Path) -> Path:
    """Where the files are: beside the store. Workers run in it, so that no name of a client's is a path."""
    return store.parent / "jobs"


def mark_pending(store: Path, run_id: str) -> None:
    """A measurement is under way: without :func:`clear_pending` the service has ended before it."""
    with _mark(store, run_id).open("ab") as file:
        file.write(b".")  # as many as it was begun


def clear_pending(store: Path, run_id: str) -> None:
    """It has ended, or was stopped by a client."""
    _mark(store, run_id).unlink(missing_ok=True)


def pending_runs(store: Path) -> list[str]:
    """The runs that an earlier service left, less those that have ended with it :data:`MAX_ATTEMPTS`
    times."""
    found = []
    for path in sorted(jobs_dir(store).glob("*.left")):
        if path.stat().st_size < MAX_ATTEMPTS:
            found.append(path.stem)
        else:
            path.unlink()
    return found


def _mark(store: Path, run_id: str) -> Path:
    return jobs_dir(store) / f"{run_id}.left"
