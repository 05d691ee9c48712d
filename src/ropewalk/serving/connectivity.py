"""Whether the machines that a server is to use can be reached: asked before it starts.

vLLM waits without end for a Ray cluster that is not there, and llama-server aborts.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable

from ropewalk.errors import EngineError, UsageError
from ropewalk.planner.records import Launch, PlanRequest
from ropewalk.serving.engines.llama_cpp.rpc import endpoint
from ropewalk.serving.process.members import by_hand, is_here, launcher_words
from ropewalk.serving.process.ports import require_free
from ropewalk.serving.records import Topology

CONNECT_SECONDS = 3.0
Answer = tuple[bool | None, str]


def reach_checks(request: PlanRequest, launch: Launch, spread: Topology) -> dict[str, Callable[[], Answer]]:
    """The checks that apply, by name: of the nodes, of the Ray cluster, of llama.cpp's RPC servers."""
    found: dict[str, Callable[[], Answer]] = {}
    if launch.nodes:
        found["nodes"] = lambda: _nodes(launch, spread)
    if spread.executor == "ray":
        found["ray"] = lambda: _ray(ray_address(spread))
    if request.rpc_servers:
        found["rpc"] = lambda: _rpc(request.rpc_servers)
    return found


def ray_address(spread: Topology) -> str | None:
    """Where the cluster is: as given, else ``RAY_ADDRESS``, which vLLM reads as well."""
    return spread.ray_address or os.environ.get("RAY_ADDRESS")


def _nodes(launch: Launch, spread: Topology) -> Answer:
    head, hand = launch.nodes[0].address, by_hand(launch, spread.launcher)
    if not is_here(head):
        return False, f"node 0 is started here, and {head} is no address of this machine"
    if spread.launcher and not shutil.which(launcher_words(spread.launcher)[0]):
        return False, f"the launcher {launcher_words(spread.launcher)[0]} is no program here"
    try:
        require_free(spread.master_port, host=head)
    except EngineError as error:
        return False, error.message.replace("--port", "--master-port")
    if hand:
        names = ", ".join(f"node {node.node} at {node.address}" for node in hand)
        return None, f"not watched, to be started by hand: {names}"
    return True, f"{len(launch.nodes)} nodes are started and watched from here"


def _ray(address: str | None) -> Answer:
    if address is None:
        return False, "no cluster is named: --ray-address HOST:PORT, or RAY_ADDRESS"
    if address == "auto":
        return None, "the cluster that Ray finds on this machine"
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return False, f"{address!r} is no address of a Ray cluster: HOST:PORT"
    problem = _connect_problem(host, int(port))
    return (False, f"no Ray cluster at {address}: {problem}") if problem else (True, f"{address} answers")


def _rpc(servers: tuple[str, ...]) -> Answer:
    try:
        problems = {server: _connect_problem(*endpoint(server)) for server in servers}
    except UsageError as error:
        return False, error.message
    silent = [f"{server} ({problem})" for server, problem in problems.items() if problem]
    if silent:
        return False, f"no ggml-rpc-server answers at {', '.join(silent)}"
    return True, f"{', '.join(servers)} answer"


def _connect_problem(host: str, port: int) -> str | None:
    try:
        socket.create_connection((host.strip("[]"), port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        return error.strerror or str(error)
    return None
