"""What would fit where a plan does not: each change alone, worked out as a plan for it would be.

Ranked by what is given up: first nothing of the target (a smaller cache type, more devices, layers or experts
on the host, a larger device), then sequences, then tokens, then the weights' precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ropewalk.errors import UsageError
from ropewalk.planner.cache_costs import cost_of, describe_loss
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.parallel import world_size
from ropewalk.planner.placement import placed
from ropewalk.planner.pricing import price
from ropewalk.planner.records import Fit, Memory, PlanRequest, WayOut, WayOutKind
from ropewalk.units import GIB

_MAX_RANKS = 8
# As they are sold.
_DEVICE_GIB = (4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 141, 180, 192, 256, 288)
_SMALLEST: frozenset[WayOutKind] = frozenset({"tensor_parallel", "memory"})  # of these the first that does
_COSTS: dict[WayOutKind, str] = {
    "tensor_parallel": "more devices, and what they send each other",
    "gpu_layers": "layers in host memory are slower",
    "cpu_moe": "experts in host memory are slower",
    "memory": "a larger device",
    "num_sequences": "fewer requests at once",
    "context_len": "a shorter context",
    "weights": "precision of the weights",
}
Change = tuple[WayOutKind, tuple[str, ...], PlanRequest]


def ways_out(case: PlanningCase, fit: Fit, memory: Memory) -> tuple[WayOut, ...]:
    """The changes that make it fit, the least costly first; none where it fits or no budget is known."""
    if fit.fits is not False or case.request.fit != "asked":
        return ()
    found: list[WayOut] = []
    for kind, flags, request in _changes(case, fit, memory):
        if kind in _SMALLEST and any(way.kind == kind for way in found):
            continue
        if way := _tried(case, kind, flags, request):
            found.append(way)
    return (*found, *_weights(case, memory))


def _changes(case: PlanningCase, fit: Fit, memory: Memory) -> Iterator[Change]:
    request = case.request
    on_host = all(share.device.startswith("cpu") for share in memory.per_device)
    for row in fit.table:
        if (row.max_context_len or 0) >= request.context_len:
            name = row.cache_type
            yield "cache_type", ("--cache-type", name), replace(request, cache_type_k=name, cache_type_v=name)
    ranks = 2 * request.tensor_parallel
    while ranks <= _MAX_RANKS and not request.node_memory_bytes:
        yield "tensor_parallel", ("--tensor-parallel", str(ranks)), replace(request, tensor_parallel=ranks)
        ranks *= 2
    if not on_host:
        yield "gpu_layers", ("--gpu-layers", "auto"), replace(request, fit="gpu_layers")
        yield "cpu_moe", ("--n-cpu-moe", "auto"), replace(request, fit="cpu_moe")
    for size in _DEVICE_GIB:
        if size * GIB > (request.memory_bytes or 0) and not request.node_memory_bytes:
            yield "memory", ("--memory", f"{size}GiB"), replace(request, memory_bytes=size * GIB)
    if fit.max_sequences:
        fewer = replace(request, num_sequences=fit.max_sequences)
        yield "num_sequences", ("--sequences", str(fit.max_sequences)), fewer
    if longest := fit.largest_context_len:
        yield "context_len", ("--context", str(longest)), replace(request, context_len=longest)


def _tried(
    case: PlanningCase, kind: WayOutKind, flags: tuple[str, ...], request: PlanRequest
) -> WayOut | None:
    """The change with its price; None where the engine has nothing like it, or it does not fit either."""
    try:
        found = price(placed(case.asking(request)))
    except UsageError:
        return None
    if found is None or found.shortfall_bytes > 0 or found.num_judged < world_size(request):
        return None
    costs = describe_loss(cost_of(request.cache_type_k)) if kind == "cache_type" else _COSTS[kind]
    return WayOut(kind, flags, found.needed_bytes, found.usable_bytes, costs=costs)


def _weights(case: PlanningCase, memory: Memory) -> Iterator[WayOut]:
    """How small the weights of a quantised sibling must be, where the rest alone fits on the one device."""
    weights = memory.term("weights")
    estimated = case.memory_model().estimate_memory(case.request.context_len, case.request.num_sequences)
    if weights is None or len(estimated.devices) > 1:
        return
    most = weights.high_bytes - estimated.shortfall_bytes
    if most > weights.high_bytes // 8:  # below two bits a weight there is none
        usable = estimated.devices[0].usable_bytes or 0
        yield WayOut("weights", (), usable, usable, weights_bytes=most, costs=_COSTS["weights"])
