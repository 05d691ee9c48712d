"""What the planner asks of an engine; everything that rounds, pads or reserves is behind this."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ropewalk.findings import Finding
from ropewalk.planner.caches import CacheType
from ropewalk.planner.machine import Machine
from ropewalk.planner.records import AdviceKind, PlanRequest, Traffic
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

    def types_of(
        self, shape: ModelShape, request: PlanRequest, machine: Machine
    ) -> tuple[CacheType, CacheType]:
        """The cache types of keys and values. Raises :class:`UsageError` for one it does not have."""
        ...

    def memory_model(self, shape: ModelShape, request: PlanRequest, machine: Machine) -> MemoryModel:
        """Everything that does not depend on length and number of sequences, worked out once."""
        ...

    def traffic(self, shape: ModelShape, request: PlanRequest) -> tuple[Traffic, ...]:
        """What one token's pass sends between devices; empty where no rule is known."""
        ...

    def alternatives(
        self, shape: ModelShape, request: PlanRequest
    ) -> Iterable[tuple[AdviceKind, PlanRequest]]:
        """Other cuts of the same devices that the engine would take and that are worth a price; with the
        kind ``layers`` one whose layers may be moved between its stages."""
        ...

    def usable_bytes(self, request: PlanRequest, machine: Machine) -> int | None:
        """The part of the budget that the engine allows itself on each device; None without a budget."""
        ...

    def findings(self, shape: ModelShape, request: PlanRequest, machine: Machine) -> list[Finding]:
        """What the engine refuses or does differently from what one would expect."""
        ...
