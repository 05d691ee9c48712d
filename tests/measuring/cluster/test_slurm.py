"""What is asked of submitit and how its answers are read; the slow suite has the real one."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ropewalk.errors import EngineError, EngineMissingError
from ropewalk.measuring.cluster import slurm
from ropewalk.measuring.cluster.backends import open_backend
from ropewalk.measuring.cluster.settings import CampaignSettings, Needs
from ropewalk.measuring.cluster.slurm import SlurmBackend, run_on_slurm


class UncompletedJobError(RuntimeError):
    """The job ended without a result."""


class FailedJobError(UncompletedJobError):
    """The function raised."""


class Job:
    """A job that is done when asked the second time."""

    job_id = "4711_0"
    state = "NODE_FAIL"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked = 0
        self.is_cancelled = False

    def done(self) -> bool:
        self.asked += 1
        return self.asked > 1

    def result(self) -> str:
        if isinstance(self.answer, Exception):
            raise self.answer
        text: str = self.answer
        return text

    def cancel(self, *, check: bool) -> None:
        self.is_cancelled = True


class FakeSubmitit:
    """Hands out ``answers`` to the jobs of an array in turn."""

    core = SimpleNamespace(
        utils=SimpleNamespace(UncompletedJobError=UncompletedJobError, FailedJobError=FailedJobError)
    )

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.jobs: list[Job] = []
        self.parameters: dict[str, Any] = {}

    def AutoExecutor(self, *, folder: Path, cluster: str) -> Any:  # submitit's name
        self.parameters = {"folder": folder, "cluster": cluster}
        return SimpleNamespace(update_parameters=self._update, map_array=self._map_array)

    def _update(self, **parameters: Any) -> None:
        self.parameters |= parameters

    def _map_array(self, function: Any, texts: list[str]) -> list[Job]:
        assert function is run_on_slurm
        self.jobs = [Job(answer) for answer, _ in zip(self.answers, texts, strict=True)]
        return self.jobs


@pytest.fixture
def submitit(monkeypatch: pytest.MonkeyPatch) -> FakeSubmitit:
    fake = FakeSubmitit()
    monkeypatch.setitem(sys.modules, "submitit", fake)
    monkeypatch.setattr(slurm, "_WAIT_SECONDS", 0)
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/bin/{program}")
    return fake


def test_without_the_extra_it_says_what_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(EngineMissingError, match=r'pip install "ropewalk\[slurm\]"'):
        open_backend(CampaignSettings("slurm"), folder=tmp_path)


def test_without_sbatch_nothing_is_begun(
    submitit: FakeSubmitit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None)
    with pytest.raises(EngineError, match="sbatch is not on the path"):
        open_backend(CampaignSettings("slurm"), folder=tmp_path)


@pytest.mark.parametrize(
    ("needs", "asked"),
    [
        (Needs(cpus=4), {"cpus_per_task": 4}),
        (Needs(gpus=2), {"cpus_per_task": 1, "gpus_per_node": 2}),
        (Needs(gpus=2, whole_node=True), {"slurm_exclusive": True, "gpus_per_node": 2}),
    ],
)
def test_a_job_asks_for_what_its_task_needs(
    submitit: FakeSubmitit, tmp_path: Path, needs: Needs, asked: dict[str, Any]
) -> None:
    submitit.answers = ["{}"]
    backend = open_backend(CampaignSettings("slurm:gpu", task_minutes=90), folder=tmp_path)
    assert backend.describe() == "Slurm, partition gpu"
    backend.submit({"a": "{}"}, needs)
    common = {"name": "ropewalk", "timeout_min": 90, "slurm_partition": "gpu"}
    assert submitit.parameters == {"folder": tmp_path, "cluster": "slurm", **common, **asked}


def test_jobs_come_back_by_their_keys(submitit: FakeSubmitit, tmp_path: Path) -> None:
    submitit.answers = [
        '{"key": "a"}',
        UncompletedJobError("Job 4711_0 (task: 0) with path tasks/4711_0_result.pkl"),
        FailedJobError("Traceback\nModuleNotFoundError: No module named 'ropewalk'"),
    ]
    with SlurmBackend(tmp_path) as backend:
        backend.submit({"a": "1", "b": "2", "c": "3"}, Needs())
        ended = [backend.next() for _ in range(3)]
    assert [one.key for one in ended] == ["a", "b", "c"]
    assert ended[0].record == '{"key": "a"}'
    assert ended[1].lost == "Slurm job 4711_0 ended without a result (NODE_FAIL)"
    assert ended[2].lost is None
    assert (ended[2].failed or "").endswith("No module named 'ropewalk'")


def test_leaving_cancels_what_is_left(submitit: FakeSubmitit, tmp_path: Path) -> None:
    submitit.answers = ["{}", "{}"]
    with SlurmBackend(tmp_path) as backend:
        backend.submit({"a": "1", "b": "2"}, Needs())
        backend.next()
    assert [job.is_cancelled for job in submitit.jobs] == [False, True]
