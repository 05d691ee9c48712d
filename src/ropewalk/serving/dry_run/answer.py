"""What an engine answered about a plan."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.serving.server_report import PrintedTerm


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """Memory as the engine itself works it out; ``source`` names the engine and how it was asked.

    ``cache_bytes`` are all caches together, for an engine that has one pool for them. ``counts`` are other
    numbers of the plan by their names in :class:`ropewalk.planner.records.KvCache`. ``refusal`` is the
    engine's reason where it would not serve the plan at all; everything else is empty then.
    """

    source: str
    terms: tuple[PrintedTerm, ...] = ()
    cache_bytes: int | None = None
    counts: tuple[tuple[str, float], ...] = ()
    refusal: str | None = None
