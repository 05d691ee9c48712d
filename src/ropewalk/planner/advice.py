"""What another cut of the same devices would hold, each priced as a plan for it would be."""

from __future__ import annotations

from collections.abc import Iterator

from ropewalk.planner.balance import balanced
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.fit import fit_limits
from ropewalk.planner.parallel import world_size
from ropewalk.planner.records import Advice, AdviceKind, Fit, PlanRequest

_MOST_SEQUENCES_FIRST = frozenset({"replicas"})  # each holds no longer a context than the whole did


def advise(case: PlanningCase, fit: Fit) -> tuple[Advice, ...]:
    """The best of each kind of change that holds a longer context or more sequences; none without a
    budget, and for one device."""
    if fit.usable_bytes is None or world_size(case.request) == 1:
        return ()
    best: dict[AdviceKind, Advice] = {}
    for kind, other in _others(case, fit):
        if not _brings(case.asking(other), fit):
            continue
        row = fit_limits("", case.asking(other))
        advice = Advice(kind, _flags(case.request, other), row.max_context_len, row.max_sequences)
        have = best.get(kind)
        if have is None or _worth(advice) > _worth(have):
            best[kind] = advice
    return tuple(best.values())


def _others(case: PlanningCase, fit: Fit) -> Iterator[tuple[AdviceKind, PlanRequest]]:
    for kind, other in case.alternatives():
        yield kind, _moved(case.asking(other), fit) if kind == "layers" else other


def _moved(case: PlanningCase, fit: Fit) -> PlanRequest:
    """The layers moved between stages until no move holds a longer context: the longer it is, the more
    the cache of a layer weighs against embedding and head."""
    best, length = case.request, fit.max_context_len or case.request.context_len
    while True:
        moved = balanced(case.asking(best), context_len=length)
        longer = fit_limits("", case.asking(moved)).max_context_len or 0
        if moved == best or longer <= length:
            return moved
        best, length = moved, longer


def _worth(advice: Advice) -> tuple[int, int]:
    figures = (advice.max_context_len or 0, advice.max_sequences or 0)
    return figures[::-1] if advice.kind in _MOST_SEQUENCES_FIRST else figures


def _brings(case: PlanningCase, fit: Fit) -> bool:
    """Whether one more token, or one more sequence, would fit."""
    request, memory_model = case.request, case.memory_model()
    longer = memory_model.shortfall_bytes((fit.max_context_len or 0) + 1, request.num_sequences) <= 0
    return longer or memory_model.shortfall_bytes(request.context_len, (fit.max_sequences or 0) + 1) <= 0


def _flags(request: PlanRequest, other: PlanRequest) -> tuple[str, ...]:
    """The options of ``ropewalk plan`` in which the other differs."""
    words: list[str] = []
    for name in ("tensor_parallel", "pipeline_parallel", "data_parallel", "decode_context_parallel"):
        if getattr(request, name) != getattr(other, name):
            words += ["--" + name.replace("_", "-"), str(getattr(other, name))]
    if other.layer_partition != request.layer_partition and other.layer_partition:
        words += ["--layer-partition", ",".join(map(str, other.layer_partition))]
    return tuple(words)
