"""Blocks moved between pipeline stages until the tightest device has the most to spare."""

from __future__ import annotations

from dataclasses import replace

from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.records import PlanRequest


def balanced(case: PlanningCase, *, context_len: int) -> PlanRequest:
    """The request with the layer partition that leaves the tightest device most at ``context_len``.

    One block at a time goes from the tightest stage to the one with the most to spare, as long as that
    helps; with blocks of one size no other partition leaves more. Where all stages together lack memory
    none could help, and the request is left as it is. Needs a budget.
    """
    best, lacks = case.request, _by_stage(case, context_len)
    while len(lacks) > 1 and sum(lack for *_, lack in lacks) <= 0:
        sizes = [last - first for first, last, _ in lacks]
        giver = max(range(len(lacks)), key=lambda stage: lacks[stage][2])
        taker = min(range(len(lacks)), key=lambda stage: lacks[stage][2])
        if sizes[giver] == 1:
            break
        sizes[giver] -= 1
        sizes[taker] += 1
        moved = replace(case.request, layer_partition=tuple(sizes))
        then = _by_stage(case.asking(moved), context_len)
        if _order(then) >= _order(lacks):
            break
        best, lacks = moved, then
    return best


def _order(lacks: list[tuple[int, int, int]]) -> list[int]:
    """The tightest first: where two stages are equally tight, the first step eases only one of them."""
    return sorted((lack for *_, lack in lacks), reverse=True)


def _by_stage(case: PlanningCase, context_len: int) -> list[tuple[int, int, int]]:
    """First and last block of each stage, and what its tightest device lacks."""
    estimated = case.memory_model().estimate_memory(context_len, case.request.num_sequences)
    stages: dict[int, tuple[int, int, int]] = {}
    for device in estimated.devices:
        if device.place is None or device.usable_bytes is None:
            continue
        lack = device.high_bytes - device.usable_bytes
        before = stages.get(device.place.stage, (0, 0, lack))[2]
        stages[device.place.stage] = (*device.layers, max(before, lack))
    return [stages[stage] for stage in sorted(stages)]
