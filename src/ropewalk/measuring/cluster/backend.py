"""What a campaign needs of whoever runs its tasks, and which of them ``--on`` names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from ropewalk.errors import EngineMissingError
from ropewalk.measuring.cluster.settings import CampaignSettings, Needs, place_of


@dataclass(frozen=True, slots=True)
class Ended:
    """A task that is over: its ``record``, or how it was ``lost`` with its worker or node, or how it
    ``failed`` before it could give one, which another attempt would not mend."""

    key: str
    record: str | None = None
    lost: str | None = None
    failed: str | None = None


class Backend(Protocol):
    """Runs texts through :func:`ropewalk.measuring.cluster.node.run_task`; leaving it cancels what is
    left."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def describe(self) -> str:
        """The machines there are, in words."""

    def submit(self, tasks: Mapping[str, str], needs: Needs) -> None:
        """Hand out tasks by their keys. Raises :class:`UsageError` where no machine has what they need."""

    def next(self) -> Ended:
        """Wait until one of the tasks is over. Raises :class:`EngineError` where the cluster is gone."""


def open_backend(settings: CampaignSettings, *, folder: Path) -> Backend:
    """The backend that ``settings.on`` names; ``folder`` is for its files, seen by all nodes of a Slurm
    cluster. Raises :class:`UsageError`, and :class:`EngineMissingError` where its extra is not installed.
    """
    place = place_of(settings.on)
    if place.kind == "local":
        from ropewalk.measuring.cluster.local import LocalBackend

        return LocalBackend()
    if place.kind == "slurm":
        from ropewalk.measuring.cluster.slurm import SlurmBackend

        return SlurmBackend(folder, partition=place.partition, minutes=settings.task_minutes)
    from ropewalk.measuring.cluster.ray_cluster import RayBackend

    return RayBackend(place.host, place.port)


def missing_extra(module: str, extra: str) -> EngineMissingError:
    """The error for a scheduler's library that is not installed."""
    return EngineMissingError(
        f'measuring on {extra} needs its extra: pip install "ropewalk[{extra}]"',
        code="extra_missing",
        where={"module": module},
    )
