"""Which blocks and how many heads go to which device: pipeline stages, tensor shards, layer splits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from ropewalk.errors import UsageError
from ropewalk.planner.shape import ModelShape


def pipeline_stages(num_layers: int, stages: int) -> tuple[tuple[int, int], ...]:
    """Half-open ranges of blocks per stage, as vLLM cuts them.

    A remainder goes to the stages before the last, one each (vLLM 0.32, distributed/utils.py:126-169).
    Raises :class:`UsageError` where there are more stages than blocks.
    """
    if not 1 <= stages <= num_layers:
        raise UsageError(
            f"{num_layers} blocks cannot be cut into {stages} pipeline stages",
            where={"flag": "--pipeline-parallel", "value": stages, "num_hidden_layers": num_layers},
        )
    base, rest = divmod(num_layers, stages)
    sizes = [base] * stages
    for place in range(2, rest + 2):
        sizes[-place] += 1
    return tuple(pairwise(accumulate(sizes, initial=0)))


def heads_per_rank(num_key_value_heads: int, tensor_parallel: int) -> int:
    """KV heads that one rank keeps: replicated once there are more ranks (vLLM config/model.py:1670)."""
    return max(1, num_key_value_heads // tensor_parallel)


def check_tensor_parallel(shape: ModelShape, tensor_parallel: int) -> None:
    """Raise :class:`UsageError` where the query heads do not divide by the ranks, or KV heads neither
    divide by them nor repeat evenly over them (vLLM 0.32, models/llama.py:150-160)."""
    queries = shape.num_attention_heads
    if queries % tensor_parallel:
        raise UsageError(
            f"{queries} attention heads cannot be divided by tensor parallel {tensor_parallel}",
            where={
                "flag": "--tensor-parallel",
                "value": tensor_parallel,
                "num_attention_heads": queries,
            },
        )
    for group in shape.layers:
        heads = group.num_key_value_heads or 1
        if max(heads, tensor_parallel) % min(heads, tensor_parallel):
            raise UsageError(
                f"{heads} KV heads can be neither divided nor repeated over {tensor_parallel} ranks",
                where={
                    "flag": "--tensor-parallel",
                    "value": tensor_parallel,
                    "num_key_value_heads": heads,
                },
            )


def split_layers(num_layers: int, *, gpu_layers: int, shares: Sequence[float]) -> tuple[int | None, ...]:
    """The GPU of each block and, last, of the output layer; None is the host.

    llama.cpp fills from the end: the last ``gpu_layers`` of ``num_layers`` + 1 are divided by the
    normalised ``shares`` (llama.cpp b11434, src/llama-model.cpp:1591-1599).
    """
    first = max(num_layers + 1 - gpu_layers, 0)
    active = min(gpu_layers, num_layers + 1)
    total = sum(shares)
    edges = [edge / total for edge in accumulate(shares)]
    return tuple(
        None if layer < first else min(bisect_right(edges, (layer - first) / active), len(edges) - 1)
        for layer in range(num_layers + 1)
    )
