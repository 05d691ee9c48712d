"""A run is held while its worker lives, and told as interrupted when it is found without one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli import records

from ropewalk.api.claims import claim, claims_dir, mark_lost_runs
from ropewalk.errors import RunActiveError
from ropewalk.serving.store import RunStore

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
