"""The cheapest cut of a model over devices of one size: fewest devices, then nodes, then traffic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ropewalk.errors import UsageError
from ropewalk.planner.balance import balanced
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.parallel import divisors
from ropewalk.planner.records import Candidate, PlanRequest
from ropewalk.units import format_bytes

_MAX_NODES = 64
_MAX_DEVICES = 512


@dataclass(frozen=True, slots=True)
class _Tried:
    """A cut and what came of it."""

    request: PlanRequest
    candidate: Candidate
    crosses: bool

    @property
    def order(self) -> tuple[int, int, bool, int]:
        """Cheapest first among cuts that fit, nearest first among those that do not."""
        lacks = self.candidate.shortfall_bytes
        short = 2**63 if lacks is None else max(0, lacks)
        return short, self.request.nodes, self.crosses, self.candidate.bytes_per_token or 0


def find_nodes(case: PlanningCase) -> tuple[PlanRequest, tuple[Candidate, ...]]:
    """The request for the cheapest cut that holds the target, and what was tried.

    Of each number of devices that does not do, the nearest cut; all cuts of the one that does. Where no
    number does, the request is the nearest of all. Raises :class:`UsageError` without a budget and devices
    per node, and for an engine that has no nodes.
    """
    request = case.request
    if request.memory_bytes is None or request.gpus_per_node is None:
        raise UsageError(
            "a search over nodes needs to know the device: --memory and --gpus-per-node",
            where={"flag": "--fit nodes", "memory_bytes": request.memory_bytes},
        )
    case.asking(_alone(request)).memory_model()
    nearest: list[_Tried] = []
    for count in range(_fewest_devices(case), _most_devices(request) + 1):
        tried = sorted(_cuts(case, count), key=lambda one: one.order)
        if not tried:
            continue
        if tried[0].candidate.fits:
            return _chosen(tried[0], [*nearest, *tried])
        nearest.append(tried[0])
    if not nearest:
        raise UsageError("no number of devices can hold this model", where={"flag": "--fit nodes"})
    best = min(nearest, key=lambda one: one.order)
    return _chosen(best, nearest)


def _chosen(best: _Tried, tried: list[_Tried]) -> tuple[PlanRequest, tuple[Candidate, ...]]:
    candidates = tuple(replace(one.candidate, chosen=one is best) for one in tried)
    return replace(best.request, fit="asked"), candidates


def _alone(request: PlanRequest) -> PlanRequest:
    """The request on one device, whatever cut it names: the search names its own."""
    return replace(
        request,
        tensor_parallel=1,
        pipeline_parallel=1,
        data_parallel=1,
        decode_context_parallel=1,
        nodes=1,
        layer_partition=(),
        node_memory_bytes=request.node_memory_bytes[:1],
    )


def _fewest_devices(case: PlanningCase) -> int:
    """Fewer could not even hold the weights."""
    shape, request = case.shape, case.request
    largest = max(request.node_memory_bytes, default=request.memory_bytes or 1)
    least = shape.weights.total * 2 // max(2, shape.dtype_bytes) // largest
    return min(max(1, least), _most_devices(request))


def _most_devices(request: PlanRequest) -> int:
    """All devices of the nodes that are named, else as many as a search may try."""
    named = len(request.node_memory_bytes) or (request.nodes if request.nodes > 1 else _MAX_NODES)
    return min(named * (request.gpus_per_node or 1), _MAX_DEVICES)


def _cuts(case: PlanningCase, count: int) -> Iterator[_Tried]:
    """Every cut of ``count`` devices into shards and stages."""
    request = case.request
    per_replica, rest = divmod(count, request.data_parallel)
    nodes = _nodes(request, count)
    if rest or nodes is None:
        return
    for shards in divisors(per_replica):
        cut = replace(
            _alone(request),
            tensor_parallel=shards,
            pipeline_parallel=per_replica // shards,
            data_parallel=request.data_parallel,
            nodes=nodes,
            node_memory_bytes=request.node_memory_bytes[:nodes],
        )
        yield _try(case.asking(cut))


def _nodes(request: PlanRequest, count: int) -> int | None:
    """The fewest nodes for so many devices; None where those cannot share them evenly."""
    least = -(-count // (request.gpus_per_node or 1))
    return None if count % least else least


def _try(case: PlanningCase) -> _Tried:
    cut = case.request
    try:
        memory_model = case.memory_model()
    except UsageError as error:
        return _Tried(cut, _candidate(cut, None, None, error.message), crosses=False)
    lacks = memory_model.shortfall_bytes(cut.context_len, cut.num_sequences)
    if lacks > 0 and cut.pipeline_parallel > 1:
        cut = balanced(case, context_len=cut.context_len)
        lacks = case.asking(cut).memory_model().shortfall_bytes(cut.context_len, cut.num_sequences)
    sent = case.asking(cut).traffic()
    reason = f"lacks {format_bytes(lacks)}" if lacks > 0 else "holds the target"
    crosses = any(one.kind == "tensor" and one.between_nodes for one in sent)
    return _Tried(cut, _candidate(cut, lacks, sum(one.bytes_per_token for one in sent), reason), crosses)


def _candidate(cut: PlanRequest, lacks: int | None, sent: int | None, reason: str) -> Candidate:
    return Candidate(
        nodes=cut.nodes,
        tensor_parallel=cut.tensor_parallel,
        pipeline_parallel=cut.pipeline_parallel,
        data_parallel=cut.data_parallel,
        layer_partition=cut.layer_partition,
        fits=lacks is not None and lacks <= 0,
        shortfall_bytes=lacks,
        bytes_per_token=sent,
        reason=reason,
    )
