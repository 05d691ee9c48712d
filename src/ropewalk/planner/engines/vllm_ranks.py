"""vLLM's ranks: their order, the node and the part of the model of each, and what vLLM refuses of it.

Read in vLLM 0.32.0; the order is that of distributed/parallel_state.py, shards innermost, then stages,
then replicas.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.errors import UsageError
from ropewalk.planner.parallel import (
    check_tensor_parallel,
    divisors,
    expert_range,
    ranks_per_node,
    world_size,
)
from ropewalk.planner.records import PlanRequest, RankPlace
from ropewalk.planner.shape import ModelShape


@dataclass(frozen=True, slots=True)
class RankKind:
    """What decides the memory of a rank: all ranks of a kind hold alike.

    ``experts`` are routed experts that are here whole, None where every rank has a slice of all.
    ``serves`` marks the first rank of a replica, ``leads`` the first of all, ``joins`` the first on a
    node that is not the first.
    """

    stage: int
    experts: int | None
    usable_bytes: int | None
    serves: bool
    leads: bool
    joins: bool


def place_ranks(
    shape: ModelShape, request: PlanRequest, budgets: tuple[int | None, ...]
) -> tuple[RankPlace, ...]:
    """Every rank's place; ``budgets`` are what the engine may use of a device, by node."""
    per_node = ranks_per_node(request)
    shards, stages = request.tensor_parallel, request.pipeline_parallel
    tied = not shape.weights.output_head
    places = []
    for rank in range(world_size(request)):
        replica, within = divmod(rank, shards * stages)
        stage, shard = divmod(within, shards)
        node = rank // per_node
        places.append(
            RankPlace(
                node=node,
                replica=replica,
                stage=stage,
                shard=shard,
                embedding=stage == 0 or (tied and stage == stages - 1),
                head=stage == stages - 1,
                experts=_experts(shape, request, replica, shard),
                budget_bytes=budgets[node],
            )
        )
    return tuple(places)


def kinds_of(
    shape: ModelShape, request: PlanRequest, budgets: tuple[int | None, ...]
) -> tuple[RankKind, ...]:
    """The kind of every rank; as many as there are ranks, few of them different."""
    per_node = ranks_per_node(request)
    shards, stages = request.tensor_parallel, request.pipeline_parallel
    kinds = []
    for rank in range(world_size(request)):
        replica, within = divmod(rank, shards * stages)
        stage, shard = divmod(within, shards)
        experts = _experts(shape, request, replica, shard)
        kinds.append(
            RankKind(
                stage=stage,
                experts=None if experts is None else experts[1] - experts[0],
                usable_bytes=budgets[rank // per_node],
                serves=within == 0,
                leads=rank == 0,
                joins=rank > 0 and rank % per_node == 0,
            )
        )
    return tuple(kinds)


def _experts(shape: ModelShape, request: PlanRequest, replica: int, shard: int) -> tuple[int, int] | None:
    """Experts are spread over the shards of all replicas (fused_moe/config.py:1185-1235)."""
    if not request.expert_parallel:
        return None
    shards = request.tensor_parallel
    return expert_range(shape.num_experts, shards * request.data_parallel, replica * shards + shard)


def check_ranks(shape: ModelShape, request: PlanRequest) -> None:
    """Raise :class:`UsageError` for what vLLM would refuse at start."""
    check_tensor_parallel(shape, request.tensor_parallel)
    _check_context_parallel(shape, request)
    _check_nodes(request)
    if request.expert_parallel and not shape.num_experts:
        raise UsageError(
            "this model has no experts to spread over ranks",
            where={"flag": "--expert-parallel", "num_experts": 0},
        )


def context_parallel_sizes(shape: ModelShape, tensor_parallel: int) -> list[int]:
    """The ways of decode-context parallel that vLLM takes (config/model.py:1565-1597, parallel.py:592).

    Ranks that would repeat a KV head share its tokens instead; a latent row is repeated on all.
    """
    ways = divisors(tensor_parallel)
    if any(group.kind == "latent" for group in shape.layers):
        return ways
    heads = _kv_heads(shape)
    queries = shape.num_attention_heads // heads
    return [count for count in ways if count <= max(1, tensor_parallel // heads) and queries % count == 0]


def cache_copies(shape: ModelShape, request: PlanRequest) -> int:
    """How many ranks of a stage hold the same tokens of the same heads; 1 where nothing is kept."""
    if not any(group.head_dim_k for group in shape.layers):
        return 1
    holders = request.tensor_parallel // min(request.tensor_parallel, _kv_heads(shape))
    return holders // request.decode_context_parallel


def _kv_heads(shape: ModelShape) -> int:
    """KV heads to divide; a latent row is one."""
    return max((group.num_key_value_heads or 1 for group in shape.layers if group.head_dim_k), default=1)


def _check_context_parallel(shape: ModelShape, request: PlanRequest) -> None:
    ways, shards = request.decode_context_parallel, request.tensor_parallel
    allowed = context_parallel_sizes(shape, shards)
    if ways not in allowed:
        raise UsageError(
            f"decode-context parallel {ways} does not go with tensor parallel {shards}: tokens are shared by "
            f"ranks that would repeat a KV head, here {' or '.join(map(str, allowed))} ways",
            where={"flag": "--decode-context-parallel", "value": ways, "tensor_parallel": shards},
        )


def _check_nodes(request: PlanRequest) -> None:
    world, nodes = world_size(request), request.nodes
    if world % nodes:
        raise UsageError(
            f"{world} ranks cannot be dealt out evenly to {nodes} nodes",
            where={"flag": "--nodes", "value": nodes, "ranks": world},
        )
    budgets = request.node_memory_bytes
    if budgets and len(budgets) != nodes:
        raise UsageError(
            f"{len(budgets)} sizes of memory for {nodes} nodes",
            where={"flag": "--memory", "value": list(budgets), "nodes": nodes},
        )
    have = request.gpus_per_node
    if have is not None and ranks_per_node(request) > have:
        raise UsageError(
            f"{world} ranks on {nodes} nodes of {have} devices: {nodes * have} are not enough",
            where={"flag": "--gpus-per-node", "value": have, "nodes": nodes, "ranks": world},
        )
    # A replica has whole nodes, or shares one with whole replicas (config/parallel.py:808-832).
    local = max(ranks_per_node(request) * request.data_parallel // world, 1)
    if nodes > 1 and (request.data_parallel % local or nodes % (request.data_parallel // local)):
        raise UsageError(
            f"{request.data_parallel} replicas cannot be dealt out to {nodes} nodes as whole ones",
            where={"flag": "--data-parallel", "value": request.data_parallel, "nodes": nodes},
        )


def crosses_nodes(request: PlanRequest) -> bool:
    """Whether the shards of some stage lie on more than one node."""
    return request.nodes > 1 and bool(ranks_per_node(request) % request.tensor_parallel)
