"""What a plan is made from: a model, what is asked of it, where, and by whose rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ropewalk.findings import Finding
from ropewalk.planner.caches import CacheType
from ropewalk.planner.engines.rules import EngineRules, MemoryModel
from ropewalk.planner.machine import Machine
from ropewalk.planner.records import AdviceKind, PlanRequest, Traffic
from ropewalk.planner.shape import ModelShape


@dataclass(frozen=True, slots=True)
class PlanningCase:
    """One model, one request, one machine and the rules of the request's engine."""

    shape: ModelShape
    request: PlanRequest
    machine: Machine
    rules: EngineRules

    def asking(self, request: PlanRequest) -> PlanningCase:
        """The same model and machine, asked for something else of the same engine."""
        return replace(self, request=request)

    def types(self) -> tuple[CacheType, CacheType]:
        """The cache types of keys and values. Raises :class:`UsageError` for one that the engine has not."""
        return self.rules.types_of(self.shape, self.request, self.machine)

    def memory_model(self) -> MemoryModel:
        """The memory as a function of length and sequences. Raises :class:`UsageError` where the engine would
        refuse the request."""
        return self.rules.memory_model(self.shape, self.request, self.machine)

    def usable_bytes(self) -> int | None:
        """The part of the budget that the engine allows itself on each device; None without a budget."""
        return self.rules.usable_bytes(self.request, self.machine)

    def traffic(self) -> tuple[Traffic, ...]:
        """What one token's pass sends between devices."""
        return self.rules.traffic(self.shape, self.request)

    def alternatives(self) -> Iterable[tuple[AdviceKind, PlanRequest]]:
        """Other cuts of the same devices that are worth an estimate."""
        return self.rules.alternatives(self.shape, self.request)

    def findings(self) -> list[Finding]:
        """What the engine refuses, or does differently from what one would expect."""
        return self.rules.findings(self.shape, self.request, self.machine)
