"""vLLM over several machines: the same command on each, told which node it is, or one command on Ray.

vLLM 0.32, engine/arg_utils.py: ``--nnodes``, ``--node-rank``, ``--master-addr``, ``--master-port``,
``--headless``, ``--distributed-executor-backend``; without Ray seen to run with 2 and 3 nodes.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ropewalk.errors import UsageError
from ropewalk.planner.records import Launch, NodeLaunch
from ropewalk.serving.records import MASTER_PORT, Topology


def distribute(launch: Launch, spread: Topology, *, num_nodes: int) -> Launch:
    """The launch of one server as that of ``num_nodes`` machines; without addresses they are called ``NODE0``
    and so on, for a person to replace. Raises :class:`UsageError` where addresses and nodes do not match.
    """
    if spread.executor == "ray":
        return with_ray(launch, spread.ray_address)
    if num_nodes == 1 and not spread.addresses:
        return launch
    addresses = spread.addresses or tuple(f"NODE{node}" for node in range(num_nodes))
    if len(addresses) != num_nodes or len(set(addresses)) != num_nodes:
        raise UsageError(
            f"{num_nodes} nodes are planned, and {len(set(addresses))} addresses given for them",
            where={"flag": "--node-addresses", "nodes": num_nodes, "addresses": list(addresses)},
        )
    return with_nodes(launch, addresses, port=spread.master_port, program=spread.program or "vllm")


def node_flags(*, num_nodes: int, node: int | str, head: str, port: int = MASTER_PORT) -> tuple[str, ...]:
    """The arguments that make a server node ``node`` of a group; ``head`` is node 0's address.

    ``node`` and ``head`` may be a launcher's own variables. Every node but the first is headless: a
    ``node`` that is a variable is taken for one of those.
    """
    return (
        *("--nnodes", str(num_nodes), "--node-rank", str(node)),
        *("--master-addr", head, "--master-port", str(port)),
        *(() if node == 0 else ("--headless",)),
    )


def with_nodes(
    launch: Launch, addresses: Sequence[str], *, port: int = MASTER_PORT, program: str = "vllm"
) -> Launch:
    """The launch of a single server as that of a group on these machines, node 0 first.

    ``program`` is what starts vLLM on the others, as typed there.
    """
    nodes = tuple(
        _node(launch, node, addresses, port, "vllm" if node == 0 else program)
        for node in range(len(addresses))
    )
    return replace(launch, argv=nodes[0].argv, env=nodes[0].env, command=nodes[0].command, nodes=nodes)


def with_ray(launch: Launch, address: str | None) -> Launch:
    """The launch of a server whose ranks are placed by the Ray cluster at ``address``.

    None leaves it to ``RAY_ADDRESS`` in the environment of the one who starts it.
    """
    argv = (*launch.argv, "--distributed-executor-backend", "ray")
    env = launch.env if address is None else {**launch.env, "RAY_ADDRESS": address}
    return replace(launch, argv=argv, env=env, command=typed("vllm", argv, env))


def _node(launch: Launch, node: int, addresses: Sequence[str], port: int, program: str) -> NodeLaunch:
    argv = (*launch.argv, *node_flags(num_nodes=len(addresses), node=node, head=addresses[0], port=port))
    env = {**launch.env, "VLLM_HOST_IP": addresses[node]}
    return NodeLaunch(node, addresses[node], program, argv, env, typed(program, argv, env))


def typed(program: str, argv: Sequence[str], env: Mapping[str, str]) -> str:
    """A command line for a person's shell; ``program`` as it is typed there."""
    settings = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    return " ".join([*settings, program, shlex.join(argv)])
