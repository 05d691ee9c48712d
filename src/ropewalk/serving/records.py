"""What serving starts: an engine found on this machine, and a launch of it."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.engines import EngineName
from ropewalk.planner.records import NodeLaunch


@dataclass(frozen=True, slots=True)
class EngineBuild:
    """An engine found on this machine.

    ``name`` is ``embedded`` (llama.cpp in a wheel) or that of the engine; ``path`` the program or
    interpreter; ``commit``/``build`` what the engine itself reports.
    """

    name: str
    engine: EngineName
    version: str | None
    path: str
    build: str | None = None
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Everything needed to start a planned server, here or on another machine.

    ``argv`` are the engine's own arguments after the program, plain integers only, in the engine's own
    spelling; the embedded engine reads the same ones. ``host`` and ``port`` are part of ``argv`` too.
    ``served_context_len`` is the context per sequence that the server must report (planned length as
    the engine pads it). ``override_context_len`` lifts the checkpoint's own limit to this length
    without scaling (``--override-kv``, or a patched temporary copy for the embedded engine). ``nodes`` has
    what each machine starts where several serve together; ``argv`` and ``env`` are then node 0's.
    """

    build: EngineBuild
    model: str
    argv: tuple[str, ...]
    env: dict[str, str]
    host: str
    port: int
    context_len: int
    served_context_len: int
    num_sequences: int
    override_context_len: int | None = None
    nodes: tuple[NodeLaunch, ...] = ()
    schema: str = "ropewalk.launch/1"
