"""vLLM over several machines: the same command on each, told which node it is, or one command on Ray.

vLLM 0.32, engine/arg_utils.py: ``--nnodes``, ``--node-rank``, ``--master-addr``, ``--master-port``,
``--headless``, ``--distributed-executor-backend``; without Ray seen to run with 2 and 3 nodes.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ropewalk.errors import UsageError
from ropewalk.planner.records import NodeLaunch
from ropewalk.serving.records import MASTER_PORT, LaunchSpec, Topology


def distribute(spec: LaunchSpec, spread: Topology, *, num_nodes: int) -> LaunchSpec:
    """The launch of one server as that of ``num_nodes`` machines; without addresses they are called ``NODE0``
    and so on, for a person to replace. Raises :class:`UsageError` where addresses and nodes do not match.
    """
    if spread.executor == "ray":
        return with_ray(spec, spread.ray_address)
    if num_nodes == 1 and not spread.addresses:
        return spec
    addresses = spread.addresses or tuple(f"NODE{node}" for node in range(num_nodes))
    if len(addresses) != num_nodes or len(set(addresses)) != num_nodes:
        raise UsageError(
            f"{num_nodes} nodes are planned, and {len(set(addresses))} addresses given for them",
            where={"flag": "--node-addresses", "nodes": num_nodes, "addresses": list(addresses)},
        )
    return with_nodes(spec, addresses, port=spread.master_port, program=spread.program or "vllm")


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
    spec: LaunchSpec, addresses: Sequence[str], *, port: int = MASTER_PORT, program: str = "vllm"
) -> LaunchSpec:
    """The launch of a single server as that of a group on these machines, node 0 first.

    ``program`` is what starts vLLM on the others, as typed there.
    """
    nodes = tuple(
        _node(spec, node, addresses, port, "vllm" if node == 0 else program) for node in range(len(addresses))
    )
    return replace(spec, argv=nodes[0].argv, env=nodes[0].env, nodes=nodes)


def with_ray(spec: LaunchSpec, address: str | None) -> LaunchSpec:
    """The launch of a server whose ranks are placed by the Ray cluster at ``address``.

    None leaves it to ``RAY_ADDRESS`` in the environment of the one who starts it.
    """
    argv = (*spec.argv, "--distributed-executor-backend", "ray")
    return replace(spec, argv=argv, env=spec.env if address is None else {**spec.env, "RAY_ADDRESS": address})


def _node(spec: LaunchSpec, node: int, addresses: Sequence[str], port: int, program: str) -> NodeLaunch:
    argv = (*spec.argv, *node_flags(num_nodes=len(addresses), node=node, head=addresses[0], port=port))
    env = {**spec.env, "VLLM_HOST_IP": addresses[node]}
    return NodeLaunch(node, addresses[node], program, argv, env, typed(program, argv, env))


def typed(program: str, argv: Sequence[str], env: Mapping[str, str]) -> str:
    """A command line for a person's shell; ``program`` as it is typed there."""
    settings = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    return " ".join([*settings, program, shlex.join(argv)])
