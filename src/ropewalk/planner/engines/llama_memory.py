"""What a llama-server holds on each device: cells, buffers, the process beside them.

Rules of llama.cpp b11434 (October 2026) unless a line says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.inspector.layer_kinds import LayerGroup
from ropewalk.planner.caches import CacheType, cache_types
from ropewalk.planner.engines import llama_builds as builds
from ropewalk.planner.engines.llama_compute import Bounds, Graph, compute_buffer, graph_of
from ropewalk.planner.engines.llama_cuda import Situation, device_buffer, host_buffer, mtp_buffer
from ropewalk.planner.engines.llama_places import Place, PlaceKind, num_blocks
from ropewalk.planner.engines.llama_slots import CELL_PAD, Slots, resolve_slots
from ropewalk.planner.layers_cache import logical_cache
from ropewalk.planner.records import Basis, KvCache, MemoryTerm, PlanRequest, RankPlace
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import (
    DeviceMemory,
    MemoryEstimate,
    cache_bytes,
    estimate,
    exact,
    shortfall_of,
    with_places,
)
from ropewalk.units import MIB

# ggml block sizes, llama.cpp b11434 ggml/src/ggml-common.h; the types -ctk and -ctv take.
CACHE_TYPES = cache_types(
    CacheType("f32", 1, 4),
    CacheType("f16", 1, 2),
    CacheType("bf16", 1, 2),
    CacheType("q8_0", 32, 34),
    CacheType("q4_0", 32, 18),
    CacheType("q4_1", 32, 20),
    CacheType("iq4_nl", 32, 18),
    CacheType("q5_0", 32, 22),
    CacheType("q5_1", 32, 24),
)
STATE_BYTES = 4  # recurrent states are f32 whatever the cache type, src/llama-memory-recurrent.cpp:101
# What the process holds beside its buffers after a prompt of 7,900 tokens with --cache-ram 0 (b11434):
# 39 MiB with a vocabulary of 49,152, 54 MiB with 262,144; the line through both, and the distance between
# them for what a third model may differ by.
_PROCESS = 37_264_384
_PROCESS_PER_TOKEN = 74
_PROCESS_SPREAD = 15 * MIB
# The embedded engine is the same server inside an interpreter: 57 MiB with SmolLM2 (b11549) instead of 39.
_INTERPRETER = 18 * MIB
# CUDA context and libraries on each GPU: rise of three cards beside the sum of llama.cpp's terms 0.25 GiB
# each (public log, 2026-09); range of the non-torch memory of published logs.
_GPU_PROCESS = (139_586_437, 268_435_456, 590_558_003)
# Compute buffers of SmolLM2 at 4,096 cells in percent of the CPU's own 18.64 MiB (b11434): 15.26 MiB on one
# RPC server, 43.05 and 32.91 on two; 18.64 and 27.32 on the host beside them. Of what they are made is not
# known, so the ends are rounded outwards.
_RPC_COMPUTE = (80, 160, 240)
_HOST_BESIDE_RPC = (90, 120, 150)
# ggml-rpc-server held 1 to 2 MiB idle, and 4 MiB beside its buffers after a prompt.
_RPC_PROCESS = (MIB, 2 * MIB, 4 * MIB)
_PROCESS_SOURCE = "context and libraries, public logs"


@dataclass(frozen=True, slots=True)
class LlamaMemoryModel:
    """What does not depend on length and number of sequences.

    ``rows`` are what one layer of each group keeps, ``places`` RPC servers, GPUs and, last, the host.
    ``missing`` says what CUDA has no flash attention for, ``flash`` whether it is on where all of this runs.
    """

    shape: ModelShape
    request: PlanRequest
    key: CacheType
    value: CacheType
    rows: tuple[Row, ...]
    places: tuple[Place, ...]
    graph: Graph
    draft_graph: Graph | None
    missing: str | None
    flash: bool
    cache_basis: Basis

    @property
    def step(self) -> int:
        """Cells come in whole pads."""
        return CELL_PAD

    def estimate_memory(self, context_len: int, num_sequences: int) -> MemoryEstimate:
        """All memory of a server started for so many sequences of so many tokens."""
        slots = self._slots(context_len, num_sequences)
        devices = self.devices(slots)
        logical = logical_cache(
            self.shape.layers,
            context_len=context_len,
            key=self.key,
            value=self.value,
            encoder_len=self.shape.encoder_len,
        )
        state = logical.state_elements * STATE_BYTES
        kv = KvCache(
            bytes_per_token=logical.token_bytes,
            windows=logical.windows,
            bytes_per_token_beyond=logical.beyond_bytes,
            logical_bytes=logical.kv_bytes * num_sequences,
            reserved_bytes=cache_bytes(devices),
            state_bytes_per_sequence=state,
            block_size=1,
            num_blocks=slots.n_ctx,
            max_concurrency=slots.n_ctx / context_len if slots.unified else float(num_sequences),
        )
        return MemoryEstimate(devices, kv, logical.terms(num_sequences, state_bytes=state))

    def shortfall_bytes(self, context_len: int, num_sequences: int) -> int:
        """:attr:`MemoryEstimate.shortfall_bytes` of :meth:`estimate_memory`, which a search asks often."""
        return shortfall_of(self.held(self._slots(context_len, num_sequences), self.judged))

    @property
    def judged(self) -> tuple[Place, ...]:
        """The places that have a budget."""
        return tuple(place for place in self.places if place.spot.usable_bytes is not None)

    def _slots(self, context_len: int, num_sequences: int) -> Slots:
        return resolve_slots(
            context_len * num_sequences,
            num_slots=num_sequences,
            unified=self.request.kv_unified,
            batch=self.request.batch,
            ubatch=self.request.ubatch,
            swa_full=self.request.swa_full,
        )

    def devices(self, slots: Slots) -> tuple[DeviceMemory, ...]:
        """What every device and the host hold, each with its place where there are several."""
        devices = self.held(slots, self.places)
        if len(devices) == 1:
            return devices
        return tuple(with_places(devices, [_rank_place(place) for place in self.places]))

    def held(self, slots: Slots, places: Sequence[Place]) -> tuple[DeviceMemory, ...]:
        """The terms of what is at these places."""
        compute = compute_buffer(self.graph, slots, flash=self.flash)
        cells = [slots.layer_cells(group) for group in self.shape.layers]
        return tuple(self._device(place, slots, cells, compute) for place in places)

    def _device(self, place: Place, slots: Slots, cells: list[int], compute: Bounds) -> DeviceMemory:
        held = {"rpc": self._rpc, "gpu": self._gpu, "cpu": self._host}[place.spot.kind]
        terms = (place.weights, *self._caches(place, slots, cells), *held(place, slots, cells, compute))
        return DeviceMemory(place.spot.device, place.layers, terms, place.spot.usable_bytes)

    def _host(self, place: Place, slots: Slots, cells: list[int], compute: Bounds) -> list[MemoryTerm]:
        """All of it on a CPU; embedding, logits and what was not offloaded beside other devices."""
        others = {other.spot.kind for other in self.places[:-1]}
        logits = slots.num_slots * self.shape.vocab_size * 4
        return [
            exact("output_buffer", logits, "one row of f32 logits per slot"),
            self._compute_of_host(place, slots, compute, others),
            *(self._draft(slots, on_host=True) if not others else ()),
            *self._on_request(slots, cells),
            self._process(slots, alone=not others),
        ]

    def _compute_of_host(
        self, place: Place, slots: Slots, compute: Bounds, others: set[PlaceKind]
    ) -> MemoryTerm:
        """The formula's where the host computes alone; inputs, and a part of it, beside other devices."""
        if "rpc" in others:
            return _scaled(compute, _HOST_BESIDE_RPC, "measured beside one and two RPC servers (b11434)")
        if "gpu" not in others:
            return compute_of_cpu(compute)
        at = self._situation(place, slots)
        computes = bool(place.layers[1]) or self.missing is not None
        found = host_buffer(self.graph, slots, at, computes=computes)
        source = "masks and inputs, b11549 and public logs by build"
        return estimate("compute_buffer", found.bytes, found.low, found.high, source)

    def _gpu(self, place: Place, slots: Slots, cells: list[int], compute: Bounds) -> list[MemoryTerm]:
        found = device_buffer(self.graph, slots, self._situation(place, slots))
        basis: Basis = "engine_rule" if found.low == found.high else "estimate"
        source = "ggml's scheduler, b11549 and public logs by build"
        low, middle, most = _GPU_PROCESS
        steps = (len(self.places) - 2).bit_length() if place.cache_share < 1 else 0
        # Where the devices add their parts up without NCCL, in steps, each has a hidden row of its own.
        summed = steps * 4 * slots.n_ubatch * self.shape.hidden_size
        pooled = 0 if builds.COPIES_RESERVED.surely(self.request.engine_version) else self._copies(slots)
        return [
            MemoryTerm("compute_buffer", found.bytes, found.low, found.high, basis, source),
            *(self._draft(slots, on_host=False) if self._drafts_on(place) else ()),
            estimate("process_overhead", middle, low, most + pooled + summed, _PROCESS_SOURCE),
        ]

    def _situation(self, place: Place, slots: Slots) -> Situation:
        """What decides the buffer of this device. Copied matrices go to the first one."""
        request, gpus = self.request, [other for other in self.places if other.spot.kind == "gpu"]
        host, whole = (
            self.places[-1],
            request.gpu_layers is None or request.gpu_layers > num_blocks(self.shape),
        )
        moved = bool(request.override_tensor or request.cpu_moe or request.n_cpu_moe)
        return Situation(
            version=request.engine_version,
            flash=self.flash,
            copies=self._copies(slots),
            streamed=self._streamed(host) if place is gpus[0] or place.cache_share < 1 else 0,
            experts=bool(host.largest_matrix) and moved and whole and bool(self.shape.num_experts),
            pipeline=len(self.places) > 2 and whole and not moved and request.split_mode == "layer",
            attends=self.missing is None,
        )

    def _streamed(self, host: Place) -> int:
        """The largest matrix on the host that a long prompt is multiplied with: of a block, or the head where
        it is for every token of a ubatch."""
        head = self.shape.weights.output_head or self.shape.weights.embedding
        all_rows = not builds.FEW_LOGITS.surely(self.request.engine_version)
        return max(host.largest_matrix, head if host.has_output and all_rows else 0)

    def _copies(self, slots: Slots) -> int:
        """Bytes of f16 copies of one layer's keys and values, where CUDA's kernels read no other type."""
        if not self.flash:
            return 0
        values = [0]
        for group in self.shape.layers:
            dims = (group.head_dim_k or 0) * (self.key.name != "f16")
            dims += (group.head_dim_v or 0) * (self.value.name != "f16")
            values.append(slots.streams * slots.layer_cells(group) * (group.num_key_value_heads or 0) * dims)
        return 2 * max(values)

    def _rpc(self, place: Place, slots: Slots, cells: list[int], compute: Bounds) -> list[MemoryTerm]:
        low, middle, most = _RPC_PROCESS
        return [
            _scaled(compute, _RPC_COMPUTE, "measured on two RPC servers, one model (b11434)"),
            *(self._draft(slots, on_host=False) if self._drafts_on(place) else ()),
            estimate("process_overhead", middle, low, most, "ggml-rpc-server, idle and in use (b11434)"),
        ]

    def _caches(self, place: Place, slots: Slots, cells: list[int]) -> list[MemoryTerm]:
        kv = indexer = states = 0
        for group, row, count, length in zip(self.shape.layers, self.rows, place.counts, cells, strict=True):
            kv += slots.streams * length * count * row.token_bytes
            if row.indexer_bytes:
                pooled = slots.cells // (group.compress_ratio or 1)
                indexer += slots.streams * pooled * count * row.indexer_bytes
            # Rows of states for every token that may be rolled back, src/llama-memory-recurrent.cpp:103.
            states += slots.num_slots * (1 + self.request.mtp) * count * row.state_bytes
        sizes = {
            "kv_cache": (kv, "cells of 256, src/llama-kv-cache.cpp:217"),
            "state": (states, "f32 for every slot, src/llama-memory-recurrent.cpp:101"),
            "indexer_cache": (indexer, "one key per token of the indexer"),
        }
        if place.cache_share < 1:
            return [self._part(name, size, place.cache_share) for name, (size, _) in sizes.items() if size]
        return [
            exact(name, size, source, basis=self.cache_basis)
            for name, (size, source) in sizes.items()
            if size
        ]

    def _part(self, name: str, size: int, share: float) -> MemoryTerm:
        """A device's part of a cache that is cut by whole heads: one more or less where these are odd."""
        heads = [group.num_key_value_heads for group in self.shape.layers if group.num_key_value_heads]
        even = all((share * count).is_integer() for count in heads)
        odd = 0 if even else size // min(heads, default=1)
        count = int(size * share)
        source = "cut by heads, src/llama-model.cpp:379"
        return estimate(name, count, max(count - odd, 0), min(count + odd, size), source)

    def _process(self, slots: Slots, *, alone: bool) -> MemoryTerm:
        """Program and vocabulary."""
        count = _PROCESS + _PROCESS_PER_TOKEN * self.shape.vocab_size
        copy = score_copy(self.shape, self.request, slots) if alone else 0
        source = "program and vocabulary, measured on two models (b11434)"
        low, high = count - _PROCESS_SPREAD, count + _PROCESS_SPREAD + _INTERPRETER + copy
        return estimate("process_overhead", count, low, high, source)

    def _on_request(self, slots: Slots, cells: list[int]) -> list[MemoryTerm]:
        """What the planned command switches off, and towers in a file of their own."""
        terms = []
        if self.shape.projector_bytes:
            terms.append(exact("projector", self.shape.projector_bytes, "sum of its tensors"))
        limit = self.request.cache_ram_bytes
        if limit:
            terms.append(estimate("prompt_cache", limit, 0, limit, "--cache-ram: finished prompts kept"))
        if self.request.context_checkpoints:
            full = self._checkpoint_bytes(cells) * self.request.context_checkpoints * slots.num_slots
            terms.append(estimate("context_checkpoints", full, 0, full, "--ctx-checkpoints per slot"))
        return terms

    def _checkpoint_bytes(self, cells: list[int]) -> int:
        """A checkpoint holds what cannot be rolled back: windows and states of one slot."""
        return sum(
            group.count * ((length * row.token_bytes if group.window else 0) + row.state_bytes)
            for group, row, length in zip(self.shape.layers, self.rows, cells, strict=True)
        )

    def _drafts_on(self, place: Place) -> bool:
        """A draft computes where the output is, an MTP block where it was put."""
        return place.has_draft if self.request.mtp else place.has_output

    def _draft(self, slots: Slots, *, on_host: bool) -> list[MemoryTerm]:
        """A second context of the same length, in f16 (-ctkd), with buffers of its own; MTP weights come with
        the file."""
        draft = self.shape.draft
        if draft is None:
            return []
        f16 = CACHE_TYPES["f16"]
        cache = sum(
            group.count * slots.streams * slots.layer_cells(group) * group.token_bytes(f16, f16)
            for group in draft.layers
        )
        logits = slots.num_slots * 4 * (draft.model or self.shape).vocab_size
        if self.draft_graph is None:
            f16_graph = graph_of(self.shape, f16, f16)
            rest = cache + logits
            own = mtp_buffer(f16_graph, slots, flash=self.flash, on_host=on_host)
        else:
            rest = draft.weights_bytes + cache + logits
            own = compute_buffer(self.draft_graph, slots, flash=self.flash)
        low, size, high = (rest + count for count in (own.low, own.bytes, own.high))
        return [
            MemoryTerm(
                name="draft_model",
                bytes=size,
                low_bytes=low,
                high_bytes=high,
                basis="engine_rule" if low == high else "estimate",
                source="its tensors, a cache as long as the model's, and its buffers (b11434)",
                logical_bytes=cache,
            )
        ]


def score_copy(shape: ModelShape, request: PlanRequest, slots: Slots) -> int:
    """The f16 copy of the scores that the CPU works on without flash attention, and does not list."""
    if request.flash_attn != "off":
        return 0
    return 2 * shape.num_attention_heads * slots.cells * slots.n_ubatch


@dataclass(frozen=True, slots=True)
class Row:
    """What one layer of a group keeps: per cell, per cell of its indexer, and per slot."""

    token_bytes: int
    indexer_bytes: int
    state_bytes: int


def rows_of(group: LayerGroup, key: CacheType, value: CacheType) -> Row:
    return Row(
        # Cross-attention is recomputed from the encoder's output, src/models/t5.cpp:170.
        token_bytes=0 if group.kind == "cross" else group.token_bytes(key, value),
        indexer_bytes=key.row_bytes(1, group.indexer_head_dim) if group.indexer_head_dim else 0,
        state_bytes=group.state_elements * STATE_BYTES,
    )


def compute_of_cpu(compute: Bounds) -> MemoryTerm:
    """The compute buffer of a processor that has all of the model."""
    basis: Basis = "engine_rule" if compute.low == compute.high else "estimate"
    source = "ggml's graph allocator, b11434"
    return MemoryTerm("compute_buffer", compute.bytes, compute.low, compute.high, basis, source)


def _scaled(compute: Bounds, percents: tuple[int, int, int], source: str) -> MemoryTerm:
    """A buffer that was only ever seen as a multiple of the CPU's."""
    low, middle, high = percents
    return estimate(
        "compute_buffer",
        compute.bytes * middle // 100,
        compute.low * low // 100,
        compute.high * high // 100,
        source,
    )


def _rank_place(place: Place) -> RankPlace:
    return RankPlace(
        node=place.spot.node,
        embedding=place.has_embedding,
        head=place.has_output,
        budget_bytes=place.spot.usable_bytes,
    )
