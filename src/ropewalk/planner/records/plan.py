"""What the planner answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ropewalk.findings import Finding, has_error
from ropewalk.pages import Paged
from ropewalk.planner.records.choices import Parallel, PlacementStep, WayOut
from ropewalk.planner.records.compute import Compute
from ropewalk.planner.records.launch import Launch
from ropewalk.planner.records.memory import Memory
from ropewalk.planner.records.request import PlanRequest

RopeDecisionKind = Literal["none", "scale", "builtin", "refuse"]


LimitedBy = Literal["memory", "config", "publisher"] | None
BudgetFrom = Literal["request", "card", "this_machine"]


@dataclass(frozen=True, slots=True)
class RopeDecision:
    """Whether and how the positions are scaled for the target context, ready for each engine.

    ``factor`` is exact (target / original as a double); ``attention_factor`` is what queries and keys
    are each multiplied by. The blocks are None where nothing has to be set; ``llama_server_flags`` is
    then empty.
    """

    decision: RopeDecisionKind
    type: str | None
    factor: float | None
    original_max_position_embeddings: int | None
    attention_factor: float | None
    reason: str
    source: str
    transformers_v4: dict[str, Any] | None = None
    transformers_v5: dict[str, Any] | None = None
    vllm_hf_overrides: dict[str, Any] | None = None
    llama_server_flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FitRow:
    """Largest context and number of sequences that one cache type allows within the budget."""

    cache_type: str
    max_context_len: int | None
    max_sequences: int | None


@dataclass(frozen=True, slots=True)
class Fit:
    """The verdict on the upper end of the estimate; all None without a budget.

    ``usable_bytes`` is the part of ``budget_bytes`` that the engine allows itself on each device; where
    nodes differ, both are of the smallest. ``max_context_len`` knows memory alone; ``largest_context_len`` is
    the longest that memory, config and publisher allow, ``limited_by`` which of them ends it (None where
    nothing does). ``budget_from`` says whose memory the budget is: as asked, a card's by its name, or this
    machine's; ``device_name`` is the card's or the device's, None where it is not known.
    """

    budget_bytes: int | None
    fits: bool | None
    max_context_len: int | None
    max_sequences: int | None
    table: tuple[FitRow, ...]
    usable_bytes: int | None = None
    largest_context_len: int | None = None
    limited_by: LimitedBy = None
    budget_from: BudgetFrom | None = None
    device_name: str | None = None


@dataclass(frozen=True, slots=True)
class Plan(Paged):
    """The answer to a :class:`PlanRequest`; ``launch`` is filled in by ``serving``.

    ``override_context_len`` is set where the checkpoint's own limit must be lifted to that length,
    ``parallel`` where there are several devices or a search for them, ``placements`` where one was looked
    for. ``broken`` are the errors of the checkpoint itself, which are
    among the findings too.
    """

    request: PlanRequest
    checkpoint: str
    context_len: int
    native_context: int | None
    supported_context: int | None
    rope: RopeDecision
    memory: Memory
    fit: Fit
    compute: Compute | None
    findings: tuple[Finding, ...]
    launch: Launch | None = None
    override_context_len: int | None = None
    parallel: Parallel | None = None
    placements: tuple[PlacementStep, ...] = ()
    broken: tuple[Finding, ...] = ()
    ways_out: tuple[WayOut, ...] = ()
    schema: str = "ropewalk.plan/1"

    @property
    def positive(self) -> bool:
        """The verdict in one bit: not refused, not known to be too large, no finding of severity error."""
        return self.rope.decision != "refuse" and self.fit.fits is not False and not has_error(self.findings)

    @property
    def may_start(self) -> bool:
        """Whether it may be started or emitted: the verdict is positive, or only the checkpoint's own errors
        are in the way and these were allowed."""
        if not self.request.allow_broken:
            return self.positive
        own = [finding for finding in self.findings if finding not in self.broken]
        return self.rope.decision != "refuse" and self.fit.fits is not False and not has_error(own)
