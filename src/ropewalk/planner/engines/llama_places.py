"""Where llama.cpp puts the layers and weights: on GPUs, and the rest on the host."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.planner.parallel import split_layers
from ropewalk.planner.records import MemoryTerm
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.weights import weights_term


@dataclass(frozen=True, slots=True)
class Place:
    """A GPU or the host: its range of blocks, how many of each group of layers, its weights.

    ``has_output`` marks the one that computes the logits.
    """

    device: str
    layers: tuple[int, int]
    counts: tuple[int, ...]
    weights: MemoryTerm
    has_output: bool


def places_of(shape: ModelShape, num_gpus: int, gpu_layers: int | None) -> tuple[Place, ...]:
    """The GPUs and, last, the host. ``gpu_layers`` None offloads all blocks and the output layer.

    GPUs take equal shares: llama.cpp divides by free memory, which is as good as equal on equal ones.
    """
    everything = shape.num_layers + 1
    offloaded = everything if gpu_layers is None else gpu_layers
    where = split_layers(
        shape.num_layers, gpu_layers=offloaded if num_gpus else 0, shares=[1.0] * (num_gpus or 1)
    )
    return tuple(_place(shape, where, gpu) for gpu in (*range(num_gpus), None))


def _place(shape: ModelShape, where: tuple[int | None, ...], gpu: int | None) -> Place:
    blocks = [block for block, place in enumerate(where[:-1]) if place == gpu]
    here = set(blocks)
    return Place(
        device="cpu" if gpu is None else f"gpu:{gpu}",
        layers=(blocks[0], blocks[-1] + 1) if blocks else (0, 0),
        counts=tuple(sum(index in here for index in group.indices) for group in shape.layers),
        weights=_weights(shape, blocks, on_host=gpu is None, has_output=where[-1] == gpu),
        has_output=where[-1] == gpu,
    )


def _weights(shape: ModelShape, blocks: list[int], *, on_host: bool, has_output: bool) -> MemoryTerm:
    """The embedding stays on the host; a head that is tied to it is copied to the output's GPU."""
    weights = shape.weights
    size = sum(weights.layers[block] for block in blocks)
    if on_host:
        size += weights.embedding + weights.mtp
    if has_output:
        size += weights.other + weights.output_head
        if not on_host and not weights.output_head:
            size += weights.embedding
    return weights_term(shape, size, source="sum of the tensors, mapped from the file")
