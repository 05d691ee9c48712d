"""The length that ``--context max`` asks for: the longest that memory, the config and the publisher allow."""

from __future__ import annotations

from dataclasses import replace

from ropewalk.errors import UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.fit import longest_fit
from ropewalk.planner.placement import GOALS, placements
from ropewalk.planner.records import Fit
from ropewalk.planner.verdict import largest_context

LONGEST = 0  # the ``context_len`` of a request that asks for it
_GUESS = 4096


def longest_context(inspection: Inspection, case: PlanningCase) -> int:
    """Tokens per sequence; over all placements where one is looked for.

    Raises :class:`UsageError` where nothing sets a limit, and where not even one token fits.
    """
    reach = _reach(case)
    fit = Fit(case.request.memory_bytes, None if reach is None else reach > 0, reach or None, None, ())
    length, limited_by = largest_context(inspection, case.request, fit)
    if length is not None:
        return length
    reason = (
        "not even one token fits" if limited_by == "memory" else "nothing sets a limit: add --memory SIZE"
    )
    raise UsageError(
        f"--context max: {reason}",
        where={"field": "context_len", "value": "max", "memory_bytes": case.request.memory_bytes},
    )


def _reach(case: PlanningCase) -> int | None:
    """What memory alone allows, 0 for nothing; None without a budget."""
    if case.usable_bytes() is None:
        return None
    cases = placements(case) if case.request.fit in GOALS else (case,)
    asked = (one.asking(replace(one.request, context_len=_GUESS)) for one in cases)
    return max(longest_fit(one.request, one.memory_model()) or 0 for one in asked)
