"""Tasks as an array of Slurm jobs, by submitit."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from ropewalk.errors import EngineError
from ropewalk.measuring.cluster.backend import Ended, missing_extra
from ropewalk.measuring.cluster.settings import Needs

_WAIT_SECONDS = 1.0  # between looks at the folder; submitit asks Slurm itself once a minute


def run_on_slurm(text: str) -> str:
    """A task as the job runs it: the node as Slurm names it."""
    from ropewalk.measuring.cluster.node import run_task

    return run_task(text, address=os.environ.get("SLURMD_NODENAME"))


class SlurmBackend:
    """Jobs of a partition; their files lie in ``folder``, which every node must see.

    ``cluster`` ``local`` runs the same jobs as processes here. Raises :class:`EngineMissingError` without
    the extra ``slurm``, :class:`EngineError` where there is no ``sbatch``.
    """

    def __init__(
        self,
        folder: Path,
        *,
        partition: str | None = None,
        minutes: int = 240,
        cluster: Literal["slurm", "local"] = "slurm",
    ) -> None:
        try:
            import submitit
        except ModuleNotFoundError as error:
            raise missing_extra("submitit", "slurm") from error
        if cluster == "slurm" and shutil.which("sbatch") is None:
            raise EngineError(
                "sbatch is not on the path: start the campaign where jobs can be handed in",
                code="cluster_unreachable",
                where={"program": "sbatch"},
            )
        self._submitit = submitit
        self._folder, self._partition, self._minutes, self._cluster = folder, partition, minutes, cluster
        self._jobs: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for job in self._jobs.values():
            job.cancel(check=False)

    def describe(self) -> str:
        """The machines there are, in words."""
        return f"Slurm, partition {self._partition}" if self._partition else "Slurm, its default partition"

    def submit(self, tasks: Mapping[str, str], needs: Needs) -> None:
        """Hand in one array of jobs."""
        executor = self._submitit.AutoExecutor(folder=self._folder, cluster=self._cluster)
        executor.update_parameters(**self._parameters(needs))
        jobs = executor.map_array(run_on_slurm, list(tasks.values()))
        self._jobs |= zip(tasks, jobs, strict=True)

    def next(self) -> Ended:
        """Wait for the end of a job."""
        while True:
            for key, job in self._jobs.items():
                if job.done():
                    del self._jobs[key]
                    return self._ended(key, job)
            time.sleep(_WAIT_SECONDS)

    def _parameters(self, needs: Needs) -> dict[str, Any]:
        parameters: dict[str, Any] = {"name": "ropewalk", "timeout_min": self._minutes}
        if self._partition:
            parameters["slurm_partition"] = self._partition
        if needs.gpus:
            parameters["gpus_per_node"] = needs.gpus
        if needs.whole_node:
            return {**parameters, "slurm_exclusive": True}
        return {**parameters, "cpus_per_task": needs.cpus}

    def _ended(self, key: str, job: Any) -> Ended:
        errors = self._submitit.core.utils
        try:
            return Ended(key, record=job.result())
        except errors.FailedJobError as error:
            return Ended(key, failed=str(error))
        except errors.UncompletedJobError:
            return Ended(key, lost=f"Slurm job {job.job_id} ended without a result ({job.state})")
