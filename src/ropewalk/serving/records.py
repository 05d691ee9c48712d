"""What serving starts: an engine found on this machine, a launch of it, and the machines it runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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


MASTER_PORT = 29501  # vLLM 0.32, config/parallel.py
Executor = Literal["mp", "ray"]


@dataclass(frozen=True, slots=True)
class Topology:
    """Machines of a group, node 0 first, and how the others are started.

    ``launcher`` is the user's own command in front of a node's, see :mod:`ropewalk.serving.process.members`;
    None leaves nodes on other machines to a person. ``program`` is what starts the engine on those, None for
    its ordinary name. The nodes meet at ``master_port`` of node 0. With the executor ``ray`` one command
    serves on the Ray cluster at ``ray_address``, and there are no nodes to start.
    """

    addresses: tuple[str, ...] = ()
    launcher: str | None = None
    program: str | None = None
    master_port: int = MASTER_PORT
    executor: Executor = "mp"
    ray_address: str | None = None


SINGLE_NODE = Topology()
