"""Stored weights by pipeline stage and tensor-parallel rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.inspector.records import WeightBytes
from ropewalk.planner.parallel import heads_per_rank
from ropewalk.planner.shape import ModelShape

# Matrices that every rank holds whole: routers, the down-projections of latent attention, indexers.
_REPLICATED = ("mlp.gate.", "router.", "kv_a_proj", "q_a_proj", "kv_a_layernorm", "indexer.")
_KEYS_AND_VALUES = ("k_proj.", "v_proj.")


def stage_weights(
    shape: ModelShape, weights: WeightBytes, stages: Sequence[tuple[int, int]], tensor_parallel: int
) -> list[int]:
    """Bytes on one rank of each stage.

    The embedding is on the first stage, and on the last as well where it serves as head; the final norm
    and the head are on the last (vLLM 0.32, models/llama.py:377-400, 500-512). Towers and MTP layers are
    terms of their own.
    """
    factor = _RankShare.of(shape, tensor_parallel)
    table = weights.embedding // tensor_parallel
    head = weights.output_head // tensor_parallel or table
    sizes = [factor.bytes(sum(weights.layers[first:last])) for first, last in stages]
    sizes[0] += table
    sizes[-1] += weights.other
    if weights.output_head or len(stages) > 1:
        sizes[-1] += head
    return sizes


@dataclass(frozen=True, slots=True)
class _RankShare:
    """The part of a block that one rank holds, in parameters of the typical block."""

    held: int
    whole: int

    @classmethod
    def of(cls, shape: ModelShape, tensor_parallel: int) -> _RankShare:
        if tensor_parallel == 1 or shape.block is None:
            return cls(1, tensor_parallel)
        heads = max((group.num_key_value_heads or 0 for group in shape.layers), default=0)
        held = 0
        for tensor in shape.block.tensors:
            if len(tensor.shape) < 2 or any(mark in tensor.name for mark in _REPLICATED):
                held += tensor.parameters
            elif heads and any(mark in tensor.name for mark in _KEYS_AND_VALUES):
                held += tensor.parameters * heads_per_rank(heads, tensor_parallel) // heads
            else:
                held += tensor.parameters // tensor_parallel
        return cls(held, shape.block.parameters)

    def bytes(self, stored: int) -> int:
        return stored * self.held // self.whole
