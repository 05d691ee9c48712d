"""A run is held while its worker lives, and told as interrupted when it is found without one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli import records

from ropewalk.api.claims import (
    MAX_ATTEMPTS,
    claim,
    claims_dir,
    forget_left,
    is_held,
    left_runs,
    mark_lost_runs,
    mark_pending,
)
from ropewalk.errors import RunActiveError
from ropewalk.measuring.store import RunStore

RUN = replace(records.smollm2_measurement(), status="running", finished=None)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with one run under way."""
    path = tmp_path / "runs.sqlite3"
    claims_dir(path).mkdir()
    with RunStore(path) as runs:
        runs.create(RUN)
    return path


def status(store: Path) -> str:
    with RunStore(store) as runs:
        return runs.load(RUN.run_id).status


def test_a_run_that_is_held_is_left_alone(store: Path) -> None:
    with claim(store, RUN.run_id):
        mark_lost_runs(store)
        assert status(store) == "running"
        with pytest.raises(RunActiveError) as raised, claim(store, RUN.run_id):
            pass
        assert raised.value.http_status == 409
    assert list(claims_dir(store).iterdir()) == []
    mark_lost_runs(store)
    assert status(store) == "running"  # measured by somebody who holds no file: the command line


def test_a_run_whose_worker_was_killed_is_interrupted(store: Path) -> None:
    left = claims_dir(store) / f"{RUN.run_id}.lock"
    left.touch()
    (claims_dir(store) / "20250101-0000-ffff.lock").touch()  # of a run that was deleted
    mark_lost_runs(store)
    assert status(store) == "interrupted"
    assert list(claims_dir(store).iterdir()) == []


def test_a_run_that_ended_stays_as_it_ended(store: Path) -> None:
    with RunStore(store) as runs:
        runs.update(replace(RUN, status="finished"))
    (claims_dir(store) / f"{RUN.run_id}.lock").touch()
    mark_lost_runs(store)
    assert status(store) == "finished"


def test_no_folder_no_claims(tmp_path: Path) -> None:
    mark_lost_runs(tmp_path / "runs.sqlite3")
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_left_until_it_has_ended_and_not_for_ever(store: Path) -> None:
    assert left_runs(store) == []
    for _ in range(MAX_ATTEMPTS - 1):
        mark_pending(store, RUN.run_id)
        assert left_runs(store) == [RUN.run_id]
    mark_pending(store, RUN.run_id)
    assert left_runs(store) == []  # the service has ended with it three times
    mark_pending(store, RUN.run_id)
    assert left_runs(store) == [RUN.run_id]
    forget_left(store, RUN.run_id)
    forget_left(store, RUN.run_id)
    assert left_runs(store) == []


def test_who_holds_a_run_is_seen(store: Path) -> None:
    assert not is_held(store, RUN.run_id)
    with claim(store, RUN.run_id):
        assert is_held(store, RUN.run_id)
    assert not is_held(store, RUN.run_id)
