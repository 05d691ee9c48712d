"""What vLLM's ranks send each other, and other ways to cut a model over the same devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import gcd

from ropewalk.errors import UsageError
from ropewalk.findings import Finding
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.engines.vllm_ranks import (
    cache_copies,
    check_ranks,
    context_parallel_sizes,
    crosses_nodes,
)
from ropewalk.planner.links import LATENCY_SECONDS
from ropewalk.planner.parallel import divisors, ranks_per_node, world_size
from ropewalk.planner.records import AdviceKind, PlanRequest, Traffic
from ropewalk.planner.shape import ModelShape


def traffic(case: PlanningCase) -> tuple[Traffic, ...]:
    """What one token's pass sends: tensor parallel within each stage, pipeline at the borders.

    Two all-reduces per block and one of the embedding, on a ring 2 (n - 1) / n of a hidden state each; two
    hidden states per border (vLLM 0.32, models/llama.py, make_empty_intermediate_tensors). What experts of
    several replicas exchange is left out.
    """
    shape, request = case.shape, case.request
    hidden = shape.hidden_size * shape.dtype_bytes
    ranks, borders = request.tensor_parallel, request.pipeline_parallel - 1
    found = []
    if ranks > 1:
        reductions = 2 * shape.num_layers + 1
        size = reductions * hidden * 2 * (ranks - 1) // ranks
        found.append(_timed(request, Traffic("tensor", reductions, size, crosses_nodes(request))))
    if borders:
        between = ranks_per_node(request) < request.tensor_parallel * request.pipeline_parallel
        found.append(_timed(request, Traffic("pipeline", borders, 2 * borders * hidden, between)))
    return tuple(found)


def _timed(request: PlanRequest, found: Traffic) -> Traffic:
    """With the seconds that it takes at the speed given: by bytes alone, and with every latency."""
    speeds = request.link_speed
    if not speeds:
        return found
    low = found.bytes_per_token / (speeds[-1] if found.between_nodes else speeds[0])
    return replace(found, low_seconds=low, high_seconds=low + found.operations * LATENCY_SECONDS)


def _cuts(shape: ModelShape, request: PlanRequest) -> Iterator[PlanRequest]:
    """Every cut of the request's devices into shards, stages and replicas that vLLM would take."""
    world = world_size(request)
    for shards, stages in product(divisors(world), repeat=2):
        cut = replace(
            request,
            tensor_parallel=shards,
            pipeline_parallel=stages,
            data_parallel=max(1, world // (shards * stages)),
            decode_context_parallel=1,
            layer_partition=(),
        )
        if world_size(cut) == world and _is_possible(shape, cut):
            yield cut


def _is_possible(shape: ModelShape, request: PlanRequest) -> bool:
    """Whether vLLM would take these ranks."""
    try:
        check_ranks(shape, request)
    except UsageError:
        return False
    return request.pipeline_parallel <= shape.num_layers


def alternatives(case: PlanningCase) -> Iterator[tuple[AdviceKind, PlanRequest]]:
    """Other cuts of the same devices that are worth a price: none whose shards lie on several nodes.

    ``layers`` is the request as it is: which layers to move is worked out by pricing.
    """
    shape, request = case.shape, case.request
    if request.pipeline_parallel > 1:
        yield "layers", request
    for cut in _cuts(shape, request):
        if _numbers(cut) != _numbers(request) and not crosses_nodes(cut):
            yield ("replicas" if cut.data_parallel > request.data_parallel else "split"), cut
    for ways in context_parallel_sizes(shape, request.tensor_parallel):
        if ways > request.decode_context_parallel:
            yield "context_parallel", replace(request, decode_context_parallel=ways)


def _numbers(request: PlanRequest) -> tuple[int, int, int]:
    return request.tensor_parallel, request.pipeline_parallel, request.data_parallel


def cut_findings(shape: ModelShape, request: PlanRequest) -> Iterator[Finding]:
    """Shards that lie on several nodes where stages would not, and caches that ranks hold alike."""
    if crosses_nodes(request):
        shards = gcd(request.tensor_parallel, ranks_per_node(request))
        inside = replace(
            request,
            tensor_parallel=shards,
            pipeline_parallel=request.tensor_parallel * request.pipeline_parallel // shards,
            decode_context_parallel=1,
            layer_partition=(),
        )
        if _is_possible(shape, inside):
            yield _crossing(shape, request, inside)
    copies = cache_copies(shape, request)
    if copies > 1:
        yield _replicated(shape, request, copies)


def _crossing(shape: ModelShape, request: PlanRequest, inside: PlanRequest) -> Finding:
    sent, instead = (
        traffic(PlanningCase(shape, request))[0].bytes_per_token,
        traffic(PlanningCase(shape, inside))[-1].bytes_per_token,
    )
    flags = f"--tensor-parallel {inside.tensor_parallel} --pipeline-parallel {inside.pipeline_parallel}"
    return Finding(
        "tensor_parallel_crosses_nodes",
        "warning",
        f"tensor parallel {request.tensor_parallel} sends {sent:,} B per token and rank between nodes; "
        f"pipeline stages would send {instead:,} B",
        {
            "flag": "--tensor-parallel",
            "value": request.tensor_parallel,
            "ranks_per_node": ranks_per_node(request),
            "bytes_per_token": sent,
            "fix": flags,
        },
    )


def _replicated(shape: ModelShape, request: PlanRequest, copies: int) -> Finding:
    ranks = request.tensor_parallel
    more = max(context_parallel_sizes(shape, ranks))
    where = {"flag": "--tensor-parallel", "value": ranks, "copies": copies}
    if more > request.decode_context_parallel:
        where["fix"] = f"--decode-context-parallel {more}: the ranks share the tokens instead"
    return Finding(
        "kv_heads_replicated",
        "info",
        f"each token's cache is held {copies} times by {ranks} ranks: those beyond {ranks // copies} save "
        "none of it",
        where,
    )
