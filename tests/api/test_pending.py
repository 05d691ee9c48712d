"""Runs that a service left when it ended are gone on with, but not for ever."""

from __future__ import annotations

from pathlib import Path

from ropewalk.api.pending import MAX_ATTEMPTS, clear_pending, jobs_dir, mark_pending, pending_runs

RUN = "20261130-1549-7f3a"


def test_a_run_is_left_until_it_has_ended_and_not_for_ever(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite3"
    jobs_dir(store).mkdir()
    assert pending_runs(store) == []
    for _ in range(MAX_ATTEMPTS - 1):
        mark_pending(store, RUN)
        assert pending_runs(store) == [RUN]
    mark_pending(store, RUN)
    assert pending_runs(store) == []  # the service has ended with it three times
    mark_pending(store, RUN)
    assert pending_runs(store) == [RUN]
    clear_pending(store, RUN)
    clear_pending(store, RUN)
    assert pending_runs(store) == []
