"""What each step down from a candidate would save: another cache type, other weights, more on the host, fewer
sequences, a shorter context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ropewalk.planner.cache_costs import describe_loss
from ropewalk.planner.choice import Option, Step, StepKind
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.fit import longest_fit
from ropewalk.planner.placement import one_less
from ropewalk.planner.pricing import price
from ropewalk.planner.records import FitGoal, PlanRequest

_MOST_SIBLINGS = 3
_SAME_MODEL = 0.02  # of its parameters: quantisations keep them, padding and a copied head aside


def steps_down(
    first: Option, case: PlanningCase, options: Sequence[Option], goal: FitGoal | None
) -> Iterator[Step]:
    """The steps down from ``first``, whose case is ``case``; cache types and files are those of the other
    ``options``, ``goal`` is how llama.cpp would place less of it on the device."""
    yield from _cache_types(first, options)
    yield from _weights(first, options)
    yield from _priced(first, case, goal)


def _cache_types(first: Option, options: Sequence[Option]) -> Iterator[Step]:
    same = [one for one in options if _placed_alike(one, first) and one.checkpoint == first.checkpoint]
    for one in sorted(same, key=lambda one: one.needed_bytes or 0, reverse=True):
        if (saved := _saved(first, one)) > 0:
            costs = describe_loss(one.cache_cost)
            yield Step("cache_type", f"--cache-type {one.cache_type}", saved, one.largest_context_len, costs)


def _weights(first: Option, options: Sequence[Option]) -> Iterator[Step]:
    """The next smaller files of the same model."""
    same = [
        one
        for one in options
        if _placed_alike(one, first)
        and one.cache_type == first.cache_type
        and abs((one.parameters or 0) - (first.parameters or 0)) <= _SAME_MODEL * (first.parameters or 0)
        and one.weights_bytes < first.weights_bytes
    ]
    for one in sorted(same, key=lambda one: one.weights_bytes, reverse=True)[:_MOST_SIBLINGS]:
        if (saved := _saved(first, one)) > 0:
            bits = f"{one.bits_per_weight:.1f} bits a weight" if one.bits_per_weight else "precision"
            yield Step("weights", one.checkpoint, saved, one.largest_context_len, bits)


def _placed_alike(one: Option, other: Option) -> bool:
    mine, others = (
        (option.engine, option.context_len, option.gpu_layers, option.n_cpu_moe) for option in (one, other)
    )
    return mine == others


def _saved(first: Option, other: Option) -> int:
    if first.needed_bytes is None or other.needed_bytes is None:
        return 0
    return first.needed_bytes - other.needed_bytes


def _priced(first: Option, case: PlanningCase, goal: FitGoal | None) -> Iterator[Step]:
    """The steps that are no candidates of their own, priced as a plan for them would be."""
    for kind, change, request, costs in _changes(case, goal):
        other = case.asking(request)
        found = price(other)
        if found is None or first.needed_bytes is None or found.needed_bytes >= first.needed_bytes:
            continue
        reach = longest_fit(request, other.memory_model())
        yield Step(kind, change, first.needed_bytes - found.needed_bytes, reach, costs)


def _changes(case: PlanningCase, goal: FitGoal | None) -> Iterator[tuple[StepKind, str, PlanRequest, str]]:
    request = case.request
    below = one_less(case, goal) if goal else None
    if below and below.n_cpu_moe != request.n_cpu_moe:
        yield "placement", f"--n-cpu-moe {below.n_cpu_moe}", below, "experts in host memory are slower"
    elif below:
        yield "placement", f"--gpu-layers {below.gpu_layers}", below, "layers in host memory are slower"
    if request.num_sequences > 1:
        fewer = replace(request, num_sequences=request.num_sequences - 1)
        yield "num_sequences", f"--sequences {fewer.num_sequences}", fewer, "fewer requests at once"
    half = request.context_len // 2
    if half:
        yield "context_len", f"--context {half}", replace(request, context_len=half), "a shorter context"
