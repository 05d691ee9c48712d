"""Where llama.cpp puts the layers and weights: on RPC servers and GPUs, and the rest on the host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from ropewalk.errors import UsageError
from ropewalk.planner.parallel import split_layers
from ropewalk.planner.records import MemoryTerm, PlanRequest
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.weights import weights_term

_SERVER = re.compile(r"[^\s,]+:[0-9]{1,5}")

PlaceKind = Literal["rpc", "gpu", "cpu"]


@dataclass(frozen=True, slots=True)
class Spot:
    """A device that layers can go to; ``node`` is 0 for this machine, then the RPC servers in order."""

    device: str
    kind: PlaceKind
    node: int
    usable_bytes: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """A device with its range of blocks, how many of each group of layers, its weights.

    ``has_output`` marks the one that computes the logits, ``has_embedding`` those with a copy of the table.
    """

    spot: Spot
    layers: tuple[int, int]
    counts: tuple[int, ...]
    weights: MemoryTerm
    has_output: bool
    has_embedding: bool


def spots_of(request: PlanRequest, num_gpus: int) -> tuple[Spot, ...]:
    """RPC servers in the order given, then the GPUs, and last the host, as ``--tensor-split`` counts them.

    llama.cpp b11434 puts RPC servers at the front, so that the output is computed here (src/llama.cpp). The
    host has a budget of its own where there is no GPU on this machine.
    """
    servers = request.rpc_servers
    budgets = request.node_memory_bytes or (request.memory_bytes,) * (len(servers) + 1)
    if len(budgets) != len(servers) + 1:
        raise UsageError(
            f"{len(budgets)} sizes of memory for this machine and {len(servers)} RPC servers",
            where={"flag": "--memory", "value": list(budgets), "rpc_servers": list(servers)},
        )
    for name in servers:
        if not _SERVER.fullmatch(name):
            raise UsageError(f"{name!r} is no HOST:PORT", where={"flag": "--rpc", "value": name})
    here = budgets[0]
    return (
        *(Spot(f"rpc:{name}", "rpc", node, budgets[node]) for node, name in enumerate(servers, start=1)),
        *(Spot(f"gpu:{number}", "gpu", 0, here) for number in range(num_gpus)),
        Spot("cpu", "cpu", 0, None if num_gpus else here),
    )


def places_of(shape: ModelShape, request: PlanRequest, spots: Sequence[Spot]) -> tuple[Place, ...]:
    """What goes to each spot; without ``gpu_layers`` all blocks and the output layer leave the host."""
    devices = len(spots) - 1
    shares = _shares(request, spots)
    everything = shape.num_layers + 1
    offloaded = everything if request.gpu_layers is None else request.gpu_layers
    where = split_layers(shape.num_layers, gpu_layers=offloaded if devices else 0, shares=shares)
    numbers: list[int | None] = [*range(devices), None]
    return tuple(_place(shape, where, number, spot) for number, spot in zip(numbers, spots, strict=True))


def _shares(request: PlanRequest, spots: Sequence[Spot]) -> Sequence[float]:
    """As given; else by memory, as llama.cpp does by free memory; else equal."""
    devices = spots[:-1]
    split = request.tensor_split
    if not split:
        return [float(spot.usable_bytes or 1) for spot in devices] or [1.0]
    if len(split) != len(devices) or min(split) < 0 or not (isfinite(sum(split)) and sum(split) > 0):
        names = ", ".join(spot.device for spot in devices) or "none"
        raise UsageError(
            f"--tensor-split {','.join(f'{share:g}' for share in split)} does not divide the devices of the "
            f"plan: {names}",
            where={"flag": "--tensor-split", "value": list(split), "devices": len(devices)},
        )
    return split


def _place(shape: ModelShape, where: tuple[int | None, ...], number: int | None, spot: Spot) -> Place:
    blocks = [block for block, place in enumerate(where[:-1]) if place == number]
    here = set(blocks)
    on_host, has_output = number is None, where[-1] == number
    has_embedding = on_host or (has_output and not shape.weights.output_head)
    return Place(
        spot=spot,
        layers=(blocks[0], blocks[-1] + 1) if blocks else (0, 0),
        counts=tuple(sum(index in here for index in group.indices) for group in shape.layers),
        weights=_weights(shape, blocks, on_host=on_host, has_output=has_output, has_embedding=has_embedding),
        has_output=has_output,
        has_embedding=has_embedding,
    )


def _weights(
    shape: ModelShape, blocks: list[int], *, on_host: bool, has_output: bool, has_embedding: bool
) -> MemoryTerm:
    """The embedding stays on the host; a head that is tied to it is copied to the output's device."""
    weights = shape.weights
    size = sum(weights.layers[block] for block in blocks)
    size += weights.embedding if has_embedding else 0
    size += weights.mtp if on_host else 0
    size += weights.other + weights.output_head if has_output else 0
    return weights_term(shape, size, source="sum of the tensors, mapped from the file")
