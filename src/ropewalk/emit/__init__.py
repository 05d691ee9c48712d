"""A plan's launch record as a file that another machine starts from: text out, nothing is read or written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from ropewalk.emit import container, k8s, shell, skypilot, slurm, systemd
from ropewalk.emit.server import EmittedServer, server_of
from ropewalk.errors import UsageError
from ropewalk.inspector.readers.hubsource import HubId
from ropewalk.planner.records import Plan

__all__ = ["KINDS", "Kind", "emit"]

EmitKind = Literal["shell", "k8s", "slurm", "skypilot", "docker", "compose", "systemd"]
KINDS: tuple[EmitKind, ...] = get_args(EmitKind)

_WRITERS: dict[EmitKind, Callable[[EmittedServer], str]] = {
    "shell": shell.script,
    "k8s": k8s.manifest,
    "slurm": slurm.script,
    "docker": container.script,
    "compose": container.compose,
    "systemd": systemd.unit,
}


def emit(plan: Plan, kind: EmitKind, *, hub: HubId | None = None, accelerator: str | None = None) -> str:
    """The file; the same plan gives the same bytes.

    ``hub`` is the repository where the plan's checkpoint is none of this machine's files. ``accelerator``
    is SkyPilot's name of a GPU (``H100``). Raises :class:`UsageError` for a plan that does not fit, is
    refused or has no command, and for what this kind of file cannot start.
    """
    if accelerator is not None and kind != "skypilot":
        raise UsageError(
            f"an accelerator is SkyPilot's name of a GPU; {kind} takes none", where={"kind": kind}
        )
    server = server_of(plan, hub=hub)
    if kind == "skypilot":
        return skypilot.task(server, accelerator=accelerator)
    return _WRITERS[kind](server)
