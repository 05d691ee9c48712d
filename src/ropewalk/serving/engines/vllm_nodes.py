"""vLLM over several machines, without Ray: the same command on each, told which node it is.

vLLM 0.32, engine/arg_utils.py: ``--nnodes``, ``--node-rank``, ``--master-addr``, ``--master-port``,
``--headless``; seen to run with 2 and 3 nodes.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from ropewalk.planner.records import NodeLaunch
from ropewalk.serving.records import LaunchSpec

MASTER_PORT = 29501


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


def with_nodes(spec: LaunchSpec, addresses: Sequence[str], *, port: int = MASTER_PORT) -> LaunchSpec:
    """The launch of a single server as that of a group on these machines, node 0 first."""
    nodes = tuple(_node(spec, node, addresses, port) for node in range(len(addresses)))
    return replace(spec, argv=nodes[0].argv, env=nodes[0].env, nodes=nodes)


def _node(spec: LaunchSpec, node: int, addresses: Sequence[str], port: int) -> NodeLaunch:
    argv = (*spec.argv, *node_flags(num_nodes=len(addresses), node=node, head=addresses[0], port=port))
    env = {**spec.env, "VLLM_HOST_IP": addresses[node]}
    settings = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    command = " ".join([*settings, shlex.join(("vllm", *argv))])
    return NodeLaunch(node, addresses[node], "vllm", argv, env, command)
