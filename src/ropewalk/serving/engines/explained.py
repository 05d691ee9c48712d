"""Options of a planned command that nobody asked for, and why they are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.planner.records import OptionNote, PlanRequest


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an engine's ``flags`` are written out; not told where a field of the request asks for them."""

    flags: tuple[str, ...]
    why: str
    fields: tuple[str, ...] = ()


def explained(request: PlanRequest, argv: Sequence[str], reasons: Sequence[Reason]) -> tuple[OptionNote, ...]:
    """A note for each group of options that stand in ``argv`` unasked, in the order of the table."""
    usual = PlanRequest(request.context_len, request.engine)
    notes = []
    for reason in reasons:
        there = tuple(flag for flag in reason.flags if flag in argv)
        asked = any(getattr(request, field) != getattr(usual, field) for field in reason.fields)
        if there and not asked:
            notes.append(OptionNote(there, reason.why))
    return tuple(notes)
