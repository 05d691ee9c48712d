"""Where the tasks of a campaign run, and what each of them is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from ropewalk.errors import UsageError

ClusterKind = Literal["local", "ray", "slurm"]


@dataclass(frozen=True, slots=True)
class CampaignSettings:
    """``on`` is ``local``, ``ray://HOST:PORT``, ``ray://auto``, ``slurm`` or ``slurm:PARTITION``.

    ``per_task_gpus`` are the GPUs of each task; ``retries`` how often a task is handed out again whose
    worker or node was lost; ``whole_nodes`` gives each task a node of its own, without which no speed is
    measured; ``task_minutes`` is the time limit of a Slurm job.
    """

    on: str
    per_task_gpus: int = 0
    retries: int = 2
    whole_nodes: bool = False
    task_minutes: int = 240

    @property
    def has_whole_nodes(self) -> bool:
        """Whether a task has its node to itself; here they run one after the other."""
        return self.whole_nodes or self.on == "local"

    @property
    def shares_cpus(self) -> bool:
        """Whether a server must keep to the cores that its task was given."""
        return not self.has_whole_nodes and self.per_task_gpus == 0


@dataclass(frozen=True, slots=True)
class Needs:
    """What a node must have free for a task; ``whole_node`` is all of it."""

    cpus: int = 1
    gpus: int = 0
    whole_node: bool = False


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """An ``on`` taken apart: the address of a Ray cluster (None for the one that this machine is part of),
    or a Slurm partition (None for the default one)."""

    kind: ClusterKind
    host: str | None = None
    port: int | None = None
    partition: str | None = None


def place_of(on: str) -> ClusterAddress:
    """What ``--on`` names. Raises :class:`UsageError`."""
    if on == "local":
        return ClusterAddress("local")
    if on == "slurm":
        return ClusterAddress("slurm")
    if on.startswith("slurm:") and on.removeprefix("slurm:"):
        return ClusterAddress("slurm", partition=on.removeprefix("slurm:"))
    if on == "ray://auto":
        return ClusterAddress("ray")
    if on.startswith("ray://") and (address := _host_and_port(on)):
        return ClusterAddress("ray", host=address[0], port=address[1])
    raise UsageError(
        f"{on!r} is no place to measure on: local, ray://HOST:PORT, ray://auto, slurm or slurm:PARTITION",
        where={"flag": "--on", "value": on},
    )


def _host_and_port(address: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    return (host, port) if host and port and not parts.path else None
