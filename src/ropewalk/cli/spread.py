"""The options of a server over several machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ropewalk.cli.command import option
from ropewalk.serving.records import MASTER_PORT, Topology

_NODES = "Several machines"
node_addresses_option = option(
    "--node-addresses", metavar="A,B,...", group=_NODES,
    callback=lambda context, param, value: _addresses(value),
    help="Where the nodes are, the one that serves first.",
)  # fmt: skip
_OPTIONS = (
    node_addresses_option,
    option("--launcher", metavar="TEMPLATE", group=_NODES,
           help="What starts the other nodes: 'ssh {address}', 'srun -w {address} {argv}'.  "
           "[default: their commands are printed]"),
    option("--node-program", metavar="COMMAND", group=_NODES,
           help="What starts the engine on the others.  [default: vllm]"),
    option("--master-port", type=click.IntRange(1, 65535), metavar="P", group=_NODES,
           help=f"Port of the first node where the nodes meet.  [default: {MASTER_PORT}]"),
    option("--executor", type=click.Choice(["mp", "ray"]), group=_NODES,
           help="What places the ranks: vLLM itself, or a Ray cluster.  [default: mp]"),
    option("--ray-address", metavar="HOST:PORT", group=_NODES,
           help="The Ray cluster.  [default: RAY_ADDRESS]"),
)  # fmt: skip
_FIELDS = {
    "launcher": "launcher",
    "node_program": "program",
    "master_port": "master_port",
    "executor": "executor",
    "ray_address": "ray_address",
}


def spread_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of several machines to a command."""
    for add in reversed(_OPTIONS):
        command = add(command)
    return command


def take_spread(options: dict[str, Any]) -> Topology:
    """What was given of them; they are removed from ``options``."""
    addresses = options.pop("node_addresses")
    given = {field: options.pop(name) for name, field in _FIELDS.items()}
    return Topology(
        addresses=addresses,
        **{field: value for field, value in given.items() if value is not None},
    )


def _addresses(value: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (value or "").split(",") if part.strip())
