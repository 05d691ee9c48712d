"""What a plan is made from, and what is asked of an engine: all that rounds, pads or reserves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Protocol, cast

from ropewalk.engines import engine_of
from ropewalk.findings import Finding
from ropewalk.planner.caches import CacheType
from ropewalk.planner.machine import UNKNOWN, Machine, MemoryKind
from ropewalk.planner.records import AdviceKind, PlanRequest, Traffic
from ropewalk.planner.roofline import Attained
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import MemoryEstimate


class MemoryModel(Protocol):
    """The memory of one model on one engine, as a function of length and number of sequences."""

    @property
    def step(self) -> int:
        """Tokens that the engine rounds a context to, mostly."""
        ...

    def estimate_memory(self, context_len: int, num_sequences: int) -> MemoryEstimate:
        """All memory for so many sequences of so many tokens.

        Never falls as either grows, but for a few rows of llama.cpp's compute buffer where more slots
        divide the ubatch better.
        """
        ...

    def shortfall_bytes(self, context_len: int, num_sequences: int) -> int:
        """What the tightest device is short of, negative for what it has to spare; needs a budget."""
        ...


class EngineRules(Protocol):
    """The functions of an engine's module."""

    @property
    def FIT_TYPES(self) -> tuple[str, ...]:
        """The cache types worth a row in the table of what fits."""
        ...

    @property
    def MAX_SEQUENCES(self) -> int | None:
        """Sequences that one server takes at once, whatever memory there is; None where it does not say."""
        ...

    @property
    def ATTAINED(self) -> Mapping[MemoryKind, Attained]:
        """What it was seen to reach of a card's figures, by the kind of its memory; empty where no row is
        known."""
        ...

    def types_of(self, case: PlanningCase) -> tuple[CacheType, CacheType]:
        """The cache types of keys and values. Raises :class:`UsageError` for one it does not have."""
        ...

    def memory_model(self, case: PlanningCase) -> MemoryModel:
        """Everything that does not depend on length and number of sequences, worked out once."""
        ...

    def traffic(self, case: PlanningCase) -> tuple[Traffic, ...]:
        """What one token's pass sends between devices; empty where no rule is known."""
        ...

    def alternatives(self, case: PlanningCase) -> Iterable[tuple[AdviceKind, PlanRequest]]:
        """Other cuts of the same devices that the engine would take and that are worth a price; with the
        kind ``layers`` one whose layers may be moved between its stages."""
        ...

    def usable_bytes(self, case: PlanningCase) -> int | None:
        """The part of the budget that the engine allows itself on each device; None without a budget."""
        ...

    def findings(self, case: PlanningCase) -> list[Finding]:
        """What the engine refuses or does differently from what one would expect."""
        ...


def rules_of(engine: str) -> EngineRules:
    """The engine's functions of :class:`EngineRules`. Raises :class:`UsageError` for an unknown engine."""
    return cast("EngineRules", import_module(engine_of(engine).rules))


@dataclass(frozen=True, slots=True)
class PlanningCase:
    """One model, one request and one machine, asked of the rules of the request's engine."""

    shape: ModelShape
    request: PlanRequest
    machine: Machine = UNKNOWN

    @property
    def rules(self) -> EngineRules:
        """The functions of the engine that the request names."""
        return rules_of(self.request.engine)

    def asking(self, request: PlanRequest) -> PlanningCase:
        """The same model and machine, asked for something else of the same engine."""
        return replace(self, request=request)

    def types(self) -> tuple[CacheType, CacheType]:
        """The cache types of keys and values. Raises :class:`UsageError` for one that the engine has not."""
        return self.rules.types_of(self)

    def memory_model(self) -> MemoryModel:
        """The memory as a function of length and sequences. Raises :class:`UsageError` where the engine would
        refuse the request."""
        return self.rules.memory_model(self)

    def usable_bytes(self) -> int | None:
        """The part of the budget that the engine allows itself on each device; None without a budget."""
        return self.rules.usable_bytes(self)

    def traffic(self) -> tuple[Traffic, ...]:
        """What one token's pass sends between devices."""
        return self.rules.traffic(self)

    def alternatives(self) -> Iterable[tuple[AdviceKind, PlanRequest]]:
        """Other cuts of the same devices that are worth an estimate."""
        return self.rules.alternatives(self)

    def findings(self) -> list[Finding]:
        """What the engine refuses, or does differently from what one would expect."""
        return self.rules.findings(self)
