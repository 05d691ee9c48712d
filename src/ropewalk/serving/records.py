"""The machines that a server runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# What an engine that is told to end is given; llama-server takes 0.1 s, vLLM 2.7 s. Then it is killed.
GRACE_SECONDS = 10.0
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
