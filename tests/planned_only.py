"""The rules of an engine that does not exist: what a planned-only engine has to say, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ropewalk.findings import Finding
from ropewalk.planner.caches import CacheType, cache_types, find_cache_type
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.layers_cache import logical_cache
from ropewalk.planner.machine import MemoryKind
from ropewalk.planner.records import AdviceKind, KvCache, PlanRequest, Traffic
from ropewalk.planner.roofline import Attained
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import DeviceMemory, MemoryEstimate, cache_bytes, exact
from ropewalk.planner.weights import weights_term

CACHE_TYPES = cache_types(CacheType("float16", 1, 2))
FIT_TYPES = ("float16",)
ATTAINED: Mapping[MemoryKind, Attained] = {}
MAX_SEQUENCES = 4


def types_of(case: PlanningCase) -> tuple[CacheType, CacheType]:
    """One type."""
    request = case.request
    name = "float16" if request.cache_type_k == "auto" else request.cache_type_k
    kind = find_cache_type(CACHE_TYPES, name, engine="planned-only")
    return kind, kind


def usable_bytes(case: PlanningCase) -> int | None:
    """All of the budget."""
    return case.request.memory_bytes


def traffic(case: PlanningCase) -> tuple[Traffic, ...]:
    """One device."""
    return ()


def alternatives(case: PlanningCase) -> tuple[tuple[AdviceKind, PlanRequest], ...]:
    """None."""
    return ()


def findings(case: PlanningCase) -> list[Finding]:
    """One, to be seen in the plan."""
    return [Finding("planned_only", "info", "this engine is planned for, not served", {})]


def memory_model(case: PlanningCase) -> PlannedModel:
    """Weights and caches."""
    return PlannedModel(case.shape, case.request, types_of(case)[0])


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """Weights and caches, nothing rounded."""

    shape: ModelShape
    request: PlanRequest
    kind: CacheType

    @property
    def step(self) -> int:
        """Nothing is rounded."""
        return 1

    def estimate_memory(self, context_len: int, num_sequences: int) -> MemoryEstimate:
        """Everything on one device."""
        cache = logical_cache(
            self.shape.layers, context_len=context_len, key=self.kind, value=self.kind, encoder_len=None
        )
        sizes = cache.terms(num_sequences, state_bytes=0)
        weights = weights_term(self.shape, self.shape.weights.total, source="sum of the tensors")
        terms = (weights, *(exact(name, size, "one row per token") for name, size in sizes.items()))
        device = DeviceMemory("gpu:0", (0, self.shape.num_layers), terms, self.request.memory_bytes)
        reserved, kept = cache_bytes([device]), cache.kv_bytes * num_sequences
        kv = KvCache(cache.token_bytes, kept, reserved, 0, 1, context_len * num_sequences, None)
        return MemoryEstimate((device,), kv, sizes)

    def shortfall_bytes(self, context_len: int, num_sequences: int) -> int:
        """That of the estimate."""
        return self.estimate_memory(context_len, num_sequences).shortfall_bytes
