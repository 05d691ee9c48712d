"""Which blocks, heads and experts go to which device: stages, shards, replicas, layer splits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from ropewalk.errors import UsageError
from ropewalk.planner.records import PlanRequest
from ropewalk.planner.shape import ModelShape


def world_size(request: PlanRequest) -> int:
    """Ranks of a request: shards x stages x replicas."""
    return request.tensor_parallel * request.pipeline_parallel * request.data_parallel


def ranks_per_node(request: PlanRequest) -> int:
    """Ranks on each node: the engine deals them out evenly (vLLM 0.32, engine/arg_utils.py:2380)."""
    return -(-world_size(request) // request.nodes)


def replica_sequences(request: PlanRequest, num_sequences: int) -> int:
    """Sequences that the busiest replica holds of so many."""
    return -(-num_sequences // request.data_parallel)


def pipeline_stages(
    num_layers: int, stages: int, *, partition: Sequence[int] = ()
) -> tuple[tuple[int, int], ...]:
    """Half-open ranges of blocks per stage, as vLLM cuts them; ``partition`` says how many each has.

    Without it a remainder goes to the stages before the last, one each (vLLM 0.32,
    distributed/utils.py:126-169). Raises :class:`UsageError` where there are more stages than blocks, or
    the partition has other stages or blocks.
    """
    if not 1 <= stages <= num_layers:
        raise UsageError(
            f"{num_layers} blocks cannot be cut into {stages} pipeline stages",
            where={"flag": "--pipeline-parallel", "value": stages, "num_hidden_layers": num_layers},
        )
    if partition:
        _check_partition(num_layers, stages, partition)
        return _ranges(partition)
    base, rest = divmod(num_layers, stages)
    sizes = [base] * stages
    for place in range(2, rest + 2):
        sizes[-place] += 1
    return _ranges(sizes)


def _ranges(sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple(pairwise(accumulate(sizes, initial=0)))


def _check_partition(num_layers: int, stages: int, partition: Sequence[int]) -> None:
    where = {"flag": "--layer-partition", "value": list(partition)}
    if len(partition) != stages:
        raise UsageError(
            f"the layer partition has {len(partition)} parts, the pipeline {stages} stages",
            where={**where, "pipeline_parallel": stages},
        )
    if sum(partition) != num_layers or min(partition) < 1:
        raise UsageError(
            f"the layer partition {','.join(map(str, partition))} does not cut {num_layers} blocks into "
            "stages of at least one",
            where={**where, "num_hidden_layers": num_layers},
        )


def divisors(count: int) -> list[int]:
    """All numbers that divide ``count``, from 1 on."""
    return [number for number in range(1, count + 1) if count % number == 0]


def expert_range(num_experts: int, ranks: int, rank: int) -> tuple[int, int]:
    """The routed experts of a rank where each is on one rank only: next to each other, a remainder on the
    first ranks (vLLM 0.32, fused_moe/expert_map_manager.py:66-88, strategy ``linear``)."""
    base, rest = divmod(num_experts, ranks)
    first = rank * base + min(rank, rest)
    return first, first + base + (rank < rest)


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


# What only some engines have, by the field of the request: the option and what it is when left alone.
_OPTIONS: dict[str, tuple[str, Any]] = {
    "data_parallel": ("--data-parallel", 1),
    "expert_parallel": ("--expert-parallel", False),
    "decode_context_parallel": ("--decode-context-parallel", 1),
    "nodes": ("--nodes", 1),
    "node_memory_bytes": ("--memory of several nodes", ()),
    "layer_partition": ("--layer-partition", ()),
    "n_cpu_moe": ("--n-cpu-moe", None),
    "cpu_moe": ("--cpu-moe", False),
    "override_tensor": ("--override-tensor", ()),
    "split_mode": ("--split-mode", "layer"),
    "main_gpu": ("--main-gpu", 0),
    "tensor_split": ("--tensor-split", ()),
    "rpc_servers": ("--rpc", ()),
    "block_size": ("--block-size", None),
    "fit": ("--fit nodes", "asked"),
    "projector": ("--projector", None),
    "gpu_memory_utilization": ("--gpu-memory-utilization", None),
    "max_num_seqs": ("--max-num-seqs", None),
    "enforce_eager": ("--enforce-eager", False),
    "kv_cache_memory_bytes": ("--kv-cache-memory-bytes", None),
    "dtype": ("--dtype", "auto"),
    "quantization": ("--quantization", None),
    "prefix_caching": ("--no-prefix-caching", None),
    "language_model_only": ("--language-model-only", False),
    "speculative": ("--speculative", None),
    "mamba_cache_mode": ("--mamba-cache-mode", None),
    "mamba_ssm_cache_dtype": ("--mamba-ssm-cache-dtype", "auto"),
    "cpu_offload_bytes": ("--cpu-offload", 0),
    "kv_offloading_bytes": ("--kv-offloading-size", 0),
    "lora": ("--lora", 0),
}


def check_options(request: PlanRequest, known: frozenset[str]) -> None:
    """Raise :class:`UsageError` for an option that the engine does not have."""
    for name, (flag, unset) in _OPTIONS.items():
        value = getattr(request, name)
        if name not in known and value != unset:
            raise UsageError(
                f"{request.engine} does not support {flag}",
                where={"flag": flag, "value": value, "engine": request.engine},
            )


def split_layers(
    num_layers: int, *, gpu_layers: int, shares: Sequence[float], output_first: bool = True
) -> tuple[int | None, ...]:
    """The device of each block and, last, of the output layer; None is the host.

    llama.cpp fills from the end: the last ``gpu_layers`` of ``num_layers`` + 1 are divided by the
    normalised ``shares`` (llama.cpp b11434, src/llama-model.cpp:1591-1599). Without ``output_first`` the last
    blocks go before the output layer, as in older builds.
    """
    first = max(num_layers + output_first - gpu_layers, 0)
    active = min(gpu_layers, num_layers + 1)
    total = sum(shares)
    edges = [edge / total for edge in accumulate(shares)]
    return tuple(
        None
        if layer < first or layer - first >= active
        else min(bisect_right(edges, (layer - first) / active), len(edges) - 1)
        for layer in range(num_layers + 1)
    )
