"""What a verdict rests on: it is never better than the inspection, and no length is offered that would be
refused when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ropewalk.findings import Finding, has_error
from ropewalk.inspector.records import Inspection
from ropewalk.planner.records import Fit, LimitedBy, PlanRequest
from ropewalk.planner.rope.decision import decide_for

# Where tensors were not seen, what was counted is the least that it takes. One shard may well be looked at
# alone, which is no error of an inspection; it cannot be served alone.
_INCOMPLETE = frozenset(
    {"missing_shards", "index_tensor_missing", "lfs_pointer", "pickle_only", "single_shard"}
)
_NO_LIMIT = 2**31 - 1  # no engine counts tokens beyond: memory does not end before


def errors_of(*inspections: Inspection | None) -> tuple[Finding, ...]:
    """The errors of all that a plan rests on, each once; that tensors were not seen is one always."""
    found = (one for inspection in inspections if inspection for one in inspection.findings)
    errors = (
        replace(one, severity="error")
        for one in found
        if one.severity == "error" or (one.severity == "warning" and one.code in _INCOMPLETE)
    )
    return tuple(_unique(errors))


def _unique(findings: Iterable[Finding]) -> list[Finding]:
    """Each once, in their order."""
    kept: list[Finding] = []
    for finding in findings:
        if finding not in kept:
            kept.append(finding)
    return kept


def is_incomplete(inspection: Inspection) -> bool:
    """Whether tensors of the checkpoint are missing."""
    return any(finding.code in _INCOMPLETE for finding in errors_of(inspection))


def stated_bytes(inspection: Inspection) -> int | None:
    """What the index says that all tensors take, where some are missing."""
    stated = (finding.where.get("bytes_expected") for finding in inspection.findings)
    return next((size for size in stated if isinstance(size, int)), None)


def largest_context(inspection: Inspection, request: PlanRequest, fit: Fit) -> tuple[int | None, LimitedBy]:
    """The longest context that memory, config and publisher allow, and which of them ends it.

    Past the last length that is stated the arms alone lead, and ``allow_unvalidated``. None where even one
    token does not fit; ``None, None`` where nothing sets a limit.
    """
    if fit.fits is not None and fit.max_context_len is None:
        return None, "memory"
    memory = fit.max_context_len or _NO_LIMIT

    def is_allowed(length: int) -> bool:
        advice = decide_for(inspection, request, context_len=length)
        return advice.decision.decision != "refuse" and not has_error(advice.findings)

    if request.arm == "auto" and not request.allow_unvalidated:
        for length, name in sorted(_stated(inspection), reverse=True, key=lambda one: one[0]):
            if is_allowed(length):
                return (memory, "memory") if memory <= length else (length, name)
    if is_allowed(memory):
        return (None, None) if memory == _NO_LIMIT else (memory, "memory")
    return _last(is_allowed, memory), "config"


def _stated(inspection: Inspection) -> Iterable[tuple[int, LimitedBy]]:
    names: tuple[tuple[LimitedBy, str], ...] = (
        ("publisher", "supported_context"),
        ("config", "max_position_embeddings"),
        ("config", "native_context"),
    )
    for name, fact in names:
        length = inspection.value(fact)
        if isinstance(length, int) and length > 0:
            yield length, name


def _last(is_allowed: Callable[[int], bool], refused: int) -> int | None:
    """The last length that is allowed before one that is not; None where not even one token is."""
    low = 0
    while refused - low > 1:
        middle = (low + refused) // 2
        low, refused = (middle, refused) if is_allowed(middle) else (low, middle)
    return low or None
