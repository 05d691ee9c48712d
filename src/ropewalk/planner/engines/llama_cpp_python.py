"""How the server of llama-cpp-python holds a model: llama.cpp's own rules, and what the library adds.

Rules of llama-cpp-python 0.3.36 (llama_cpp/llama.py, llama_cpp/server/settings.py) unless a line says
otherwise. It serves one sequence, keeps windows at full length, and llama.cpp's cap at the trained context is
not in it: that is part of llama-server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ropewalk.errors import UsageError
from ropewalk.findings import Finding
from ropewalk.planner.caches import CacheType, find_cache_type
from ropewalk.planner.engines import llama_memory, llama_server
from ropewalk.planner.engines.llama_compute import Bounds, beside_logits, compute_buffer
from ropewalk.planner.engines.llama_memory import CACHE_TYPES, LlamaMemoryModel
from ropewalk.planner.engines.llama_places import Place
from ropewalk.planner.engines.llama_slots import CELL_PAD, Slots, resolve_slots
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.records import AdviceKind, MemoryTerm, PlanRequest, Traffic
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import DeviceMemory, MemoryEstimate, estimate, shortfall_of, with_places
from ropewalk.units import MIB

FIT_TYPES = llama_server.FIT_TYPES
ATTAINED = llama_server.ATTAINED
MAX_SEQUENCES = 1  # one llama_context of n_seq_max 1; a second request waits for the first
DEFAULT_BATCH = 512  # server/settings.py n_batch; llama-server has 2,048

# What the process holds beside its buffers after loading: 91 MiB with a vocabulary of 49,152, 118 MiB with
# 262,144, 26 MiB of each mapped from libraries; the line through both, and about what the libraries take.
_PROCESS = 89_300_000
_PROCESS_PER_TOKEN = 132
_PROCESS_SPREAD = 30 * MIB


def types_of(case: PlanningCase) -> tuple[CacheType, CacheType]:
    """The cache types of keys and values; ``auto`` is f16.

    Raises :class:`UsageError` for a type that ggml has not, and for what only llama-server can be told.
    """
    shape, request = case.shape, case.request
    _require_known(shape, request)
    key, value = ("f16" if name == "auto" else name for name in (request.cache_type_k, request.cache_type_v))
    return (
        find_cache_type(CACHE_TYPES, key, engine="llama-cpp-python"),
        find_cache_type(CACHE_TYPES, value, engine="llama-cpp-python"),
    )


def usable_bytes(case: PlanningCase) -> int | None:
    """All of the budget."""
    return case.request.memory_bytes


def as_served(request: PlanRequest) -> PlanRequest:
    """The request in the terms of llama.cpp: the library's own batch, and windows at full length, which its
    server has no setting for (the library's default, llama.cpp include/llama.h swa_full). One sequence has a
    pool of its own either way."""
    return replace(request, batch=request.batch or DEFAULT_BATCH, swa_full=True, kv_unified=False)


def slots_of(request: PlanRequest, context_len: int) -> Slots:
    """What llama.cpp makes of the length and the batch sizes."""
    served = as_served(request)
    return resolve_slots(
        context_len, num_slots=1, unified=False, batch=served.batch, ubatch=served.ubatch, swa_full=True
    )


def memory_model(case: PlanningCase) -> PythonMemoryModel:
    """Place the layers. Raises :class:`UsageError` as :func:`types_of` does."""
    types_of(case)
    return PythonMemoryModel(llama_server.memory_model(case.asking(as_served(case.request))))


@dataclass(frozen=True, slots=True)
class PythonMemoryModel:
    """``llama`` prices what llama.cpp itself holds."""

    llama: LlamaMemoryModel

    @property
    def step(self) -> int:
        """Cells come in whole pads."""
        return CELL_PAD

    def estimate_memory(self, context_len: int, num_sequences: int) -> MemoryEstimate:
        """All memory of a server for sequences of so many tokens, one at a time."""
        slots = slots_of(self.llama.request, context_len)
        estimated = self.llama.estimate_memory(context_len, 1)
        devices = self._devices(self.llama.places, estimated.devices, slots)
        places = [device.place for device in devices if device.place]
        return replace(estimated, devices=tuple(with_places(devices, places) if places else devices))

    def shortfall_bytes(self, context_len: int, num_sequences: int) -> int:
        """:attr:`MemoryEstimate.shortfall_bytes` of :meth:`estimate_memory`."""
        slots = slots_of(self.llama.request, context_len)
        judged = self.llama.judged
        return shortfall_of(self._devices(judged, self.llama.held(slots, judged), slots))

    def _devices(
        self, places: Sequence[Place], held: Sequence[DeviceMemory], slots: Slots
    ) -> list[DeviceMemory]:
        return [
            replace(device, terms=self._terms(place, device.terms, slots))
            for place, device in zip(places, held, strict=True)
        ]

    def _terms(self, place: Place, terms: Sequence[MemoryTerm], slots: Slots) -> tuple[MemoryTerm, ...]:
        """llama.cpp's own, with logits for a whole batch where they are computed, and the library's."""
        alone = len(self.llama.places) == 1
        changed = {"process_overhead": self._process(slots, alone=alone)} if place.spot.kind == "cpu" else {}
        if place.has_output:
            changed["compute_buffer"] = self._compute(terms, slots, alone=alone)
        kept = (changed.get(term.name, term) for term in terms)
        return (*kept, *((self._logits(slots),) if place.spot.kind == "cpu" else ()))

    def _compute(self, terms: Sequence[MemoryTerm], slots: Slots, *, alone: bool) -> MemoryTerm:
        bounds = self._bounds(slots)
        if alone:
            return llama_memory.compute_of_cpu(bounds)
        term = next(term for term in terms if term.name == "compute_buffer")
        size, high = max(term.bytes, bounds.bytes), max(term.high_bytes, bounds.high)
        return replace(term, bytes=size, high_bytes=high)

    def _bounds(self, slots: Slots) -> Bounds:
        graph = self.llama.graph
        flash = self.llama.flash
        return beside_logits(graph, slots, compute_buffer(graph, slots, flash=flash))

    def _logits(self, slots: Slots) -> MemoryTerm:
        """``Llama.scores``: asked for at the start, and written only with ``logits_all`` (llama.py:484, 690),
        so that none of it is resident."""
        size = slots.n_batch * self.llama.shape.vocab_size * 4
        return estimate(
            "logits", 0, 0, size, "n_batch rows of f32 logits, never written with logits_all false"
        )

    def _process(self, slots: Slots, *, alone: bool) -> MemoryTerm:
        count = _PROCESS + _PROCESS_PER_TOKEN * self.llama.shape.vocab_size
        copy = llama_memory.score_copy(self.llama.shape, self.llama.request, slots) if alone else 0
        source = "interpreter, web server and vocabulary, measured on two models (0.3.36)"
        low, high = count - _PROCESS_SPREAD, count + _PROCESS_SPREAD + copy
        return estimate("process_overhead", count, low, high, source)


def traffic(case: PlanningCase) -> tuple[Traffic, ...]:
    """No rule is known."""
    return ()


def alternatives(case: PlanningCase) -> tuple[tuple[AdviceKind, PlanRequest], ...]:
    """None, as with llama-server."""
    return ()


def findings(case: PlanningCase) -> list[Finding]:
    """What llama.cpp refuses, and what the library does otherwise than llama-server."""
    shape, request = case.shape, case.request
    found = llama_server.findings(case.asking(as_served(request)))
    windows = sorted({group.window for group in shape.layers if group.window})
    if windows and not request.swa_full:
        found.append(
            Finding(
                "window_kept_whole",
                "info",
                f"llama-cpp-python keeps the whole length for windows of {windows[0]:,} tokens too: "
                "its server cannot switch that off",
                {"field": "swa_full", "window": windows[0]},
            )
        )
    return found


def _require_known(shape: ModelShape, request: PlanRequest) -> None:
    """Settings that this server does not have are refused, rather than dropped."""
    unknown = {
        "--cache-ram": request.cache_ram_bytes,
        "--context-checkpoints": request.context_checkpoints,
        "--mtp": bool(request.mtp),
        "--draft": shape.draft is not None and not request.mtp,
        "--projector": shape.projector_bytes,
        "--n-cpu-moe": request.n_cpu_moe,
        "--cpu-moe": request.cpu_moe,
        "--override-tensor": bool(request.override_tensor),
    }
    for flag, value in unknown.items():
        if value:
            raise UsageError(
                f"llama-cpp-python's server has no {flag}; llama-server has",
                where={"flag": flag, "engine": "llama-cpp-python"},
            )
