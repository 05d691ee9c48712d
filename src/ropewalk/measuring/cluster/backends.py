"""Who runs the tasks of a campaign: the one that ``--on`` names."""

from __future__ import annotations

from pathlib import Path

from ropewalk.measuring.cluster.backend import Backend
from ropewalk.measuring.cluster.settings import CampaignSettings, place_of


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
