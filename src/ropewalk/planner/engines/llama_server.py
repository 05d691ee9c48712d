"""How llama-server holds a model: cells, slots, cache types of ggml, host and device buffers.

Rules of llama.cpp b11434 (October 2026) unless a line says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.findings import Finding
from ropewalk.inspector.records import LayerGroup
from ropewalk.planner.caches import CacheType, cache_types, find_cache_type
from ropewalk.planner.engines.llama_compute import compute_buffer
from ropewalk.planner.engines.llama_slots import Slots, resolve_slots
from ropewalk.planner.layers_cache import LogicalCache, layer_token_bytes, logical_cache, state_elements
from ropewalk.planner.machine import DeviceKind, Machine
from ropewalk.planner.parallel import split_layers
from ropewalk.planner.records import Basis, KvCache, MemoryTerm, PlanRequest
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import CACHES, DeviceMemory, Priced, estimate, exact
from ropewalk.units import MIB, format_tokens

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
FIT_TYPES = ("f16", "q8_0", "q5_1", "q4_0")
STATE_BYTES = 4  # recurrent states are f32 whatever the cache type, src/llama-memory-recurrent.cpp:101

# What the process holds beside its buffers after a prompt of 7,900 tokens with --cache-ram 0 (b11434):
# 39 MiB with a vocabulary of 49,152, 54 MiB with 262,144; the line through both, and the distance between
# them for what a third model may differ by.
_PROCESS = 37_264_384
_PROCESS_PER_TOKEN = 74
_PROCESS_SPREAD = 15 * MIB
# CUDA context and libraries on each GPU: rise of three cards beside the sum of llama.cpp's terms 0.25 GiB
# each (public log, 2026-09); range of the non-torch memory of published logs.
_GPU_PROCESS = (139_586_437, 268_435_456, 590_558_003)


def types_of(shape: ModelShape, request: PlanRequest, machine: Machine) -> tuple[CacheType, CacheType]:
    """The cache types of keys and values; ``auto`` is f16. Raises :class:`UsageError`.

    Latent attention keeps one row for both, so the values' type follows the keys'.
    """
    key = "f16" if request.cache_type_k == "auto" else request.cache_type_k
    follows = key if _latent(shape) else "f16"
    value = follows if request.cache_type_v == "auto" else request.cache_type_v
    return (
        find_cache_type(CACHE_TYPES, key, engine="llama-server"),
        find_cache_type(CACHE_TYPES, value, engine="llama-server"),
    )


def device_of(request: PlanRequest, machine: Machine) -> DeviceKind:
    """CPU or GPU: as asked, else as the machine is, else the CPU."""
    if request.device == "auto":
        return machine.kind or "cpu"
    return "cpu" if request.device == "cpu" else "gpu"


def usable_bytes(request: PlanRequest, machine: Machine) -> int | None:
    """All of the budget."""
    return request.memory_bytes


def pricer(shape: ModelShape, request: PlanRequest, machine: Machine) -> LlamaPricer:
    """Place the layers. Raises :class:`UsageError` for a cache type that ggml has not."""
    key, value = types_of(shape, request, machine)
    num_gpus = 0
    if device_of(request, machine) == "gpu" and request.gpu_layers != 0:
        num_gpus = request.tensor_parallel * request.pipeline_parallel
    gpu_layers = shape.num_layers + 1 if request.gpu_layers is None else request.gpu_layers
    places = split_layers(shape.num_layers, gpu_layers=gpu_layers if num_gpus else 0, shares=[1.0] * num_gpus)
    return LlamaPricer(shape, request, key, value, num_gpus, places)


@dataclass(frozen=True, slots=True)
class LlamaPricer:
    """What does not depend on length and number of sequences: types, and the device of each layer.

    ``places`` has one entry per block and, last, one for the output layer; None is the host.
    """

    shape: ModelShape
    request: PlanRequest
    key: CacheType
    value: CacheType
    num_gpus: int
    places: tuple[int | None, ...]

    def price(self, context_len: int, num_sequences: int) -> Priced:
        """All memory of a server started for so many sequences of so many tokens."""
        slots = resolve_slots(
            context_len * num_sequences,
            num_slots=num_sequences,
            unified=self.request.kv_unified,
            batch=self.request.batch,
            ubatch=self.request.ubatch,
            swa_full=self.request.swa_full,
        )
        devices = [self._device(gpu, slots) for gpu in range(self.num_gpus)]
        devices.append(self.host(slots))
        logical = self._logical(self.shape.layers, context_len)
        state = logical.state_elements * STATE_BYTES
        kv = KvCache(
            bytes_per_token=logical.token_bytes,
            logical_bytes=logical.kv_bytes * num_sequences,
            reserved_bytes=sum(t.bytes for device in devices for t in device.terms if t.name in CACHES),
            state_bytes_per_sequence=state,
            block_size=1,
            num_blocks=slots.n_ctx,
            max_concurrency=slots.n_ctx / context_len if slots.unified else float(num_sequences),
        )
        return Priced(tuple(devices), kv, logical.terms(num_sequences, state_bytes=state))

    def host(self, slots: Slots) -> DeviceMemory:
        """Host memory: all of it on a CPU, embedding and logits beside GPUs."""
        shape = self.shape
        terms = [*self._weights(None), *self._caches(None, slots)]
        logits = slots.num_slots * shape.vocab_size * 4
        terms.append(exact("output_buffer", logits, "one row of f32 logits per slot"))
        terms.append(self._compute(None, slots))
        terms += self._beside(slots)
        vocabulary = _PROCESS_PER_TOKEN * shape.vocab_size
        count = _PROCESS + vocabulary
        terms.append(
            estimate(
                "process_overhead",
                count,
                count - _PROCESS_SPREAD,
                count + _PROCESS_SPREAD + self._work_copy(slots),
                "program and vocabulary, measured on two models (b11434)",
            )
        )
        return DeviceMemory("cpu", self._range(None), tuple(terms), budgeted=not self.num_gpus)

    def _device(self, gpu: int, slots: Slots) -> DeviceMemory:
        terms = [*self._weights(gpu), *self._caches(gpu, slots), self._compute(gpu, slots)]
        if gpu == self.places[-1]:
            terms += self._draft(slots)
        low, middle, high = _GPU_PROCESS
        terms.append(estimate("process_overhead", middle, low, high, "context and libraries, public logs"))
        return DeviceMemory(f"gpu:{gpu}", self._range(gpu), tuple(terms))

    def _layers(self, gpu: int | None) -> list[int]:
        return [layer for layer, place in enumerate(self.places[:-1]) if place == gpu]

    def _range(self, gpu: int | None) -> tuple[int, int]:
        layers = self._layers(gpu)
        return (layers[0], layers[-1] + 1) if layers else (0, 0)

    def _weights(self, gpu: int | None) -> list[MemoryTerm]:
        """The embedding stays on the host; a head that is tied to it is copied to the output's device."""
        weights = self.shape.weights
        size = sum(weights.layers[layer] for layer in self._layers(gpu))
        if gpu is None:
            size += weights.embedding + weights.mtp
        if gpu == self.places[-1]:
            size += weights.other + weights.output_head
            if gpu is not None and not weights.output_head:
                size += weights.embedding
        if not self.shape.has_tensors:
            return [estimate("weights", size, size, size, "dimensions of the config, no tensor read")]
        return [exact("weights", size, "sum of the tensors, mapped from the file")]

    def _caches(self, gpu: int | None, slots: Slots) -> list[MemoryTerm]:
        here = set(self._layers(gpu))
        kv = indexer = states = 0
        for group in self.shape.layers:
            count = group.count if not self.num_gpus else len(here.intersection(group.indices))
            cells = slots.streams * slots.layer_cells(group) * count
            if group.kind != "cross":  # recomputed from the encoder's output, src/models/t5.cpp:170
                kv += cells * layer_token_bytes(group, self.key, self.value)
            if group.indexer_head_dim:
                pooled = slots.streams * slots.cells // (group.compress_ratio or 1) * count
                indexer += pooled * self.key.row_bytes(1, group.indexer_head_dim)
            states += count * slots.num_slots * state_elements(group) * STATE_BYTES
        sizes = {
            "kv_cache": (kv, "cells of 256, src/llama-kv-cache.cpp:217"),
            "state": (states, "f32 for every slot, src/llama-memory-recurrent.cpp:101"),
            "indexer_cache": (indexer, "one key per token of the indexer"),
        }
        basis: Basis = "estimate" if self.shape.pools_tokens else "exact"
        return [exact(name, size, source, basis=basis) for name, (size, source) in sizes.items() if size]

    def _compute(self, gpu: int | None, slots: Slots) -> MemoryTerm:
        flash = self.request.flash_attn != "off"
        found = compute_buffer(self.shape, slots, self.key, self.value, flash=flash)
        if gpu is not None:
            # Builds before b11434 reserve logits for every token of a ubatch; seen in published GPU logs.
            high = found.high + slots.n_ubatch * self.shape.vocab_size * 4
            return estimate("compute_buffer", found.bytes, found.low, high, "the CPU's buffer at least")
        if self.num_gpus:
            return estimate("compute_buffer", found.bytes, 0, found.high, "the CPU's buffer at most")
        basis: Basis = "engine_rule" if found.low == found.high else "estimate"
        source = "ggml's graph allocator, b11434"
        return MemoryTerm("compute_buffer", found.bytes, found.low, found.high, basis, source)

    def _work_copy(self, slots: Slots) -> int:
        """f16 copy of the scores that the CPU backend works on without flash attention, unlisted by it."""
        if self.request.flash_attn != "off" or self.num_gpus:
            return 0
        return 2 * self.shape.num_attention_heads * slots.cells * slots.n_ubatch

    def _beside(self, slots: Slots) -> list[MemoryTerm]:
        terms = [] if self.num_gpus else self._draft(slots)
        if self.shape.projector_bytes:
            terms.append(exact("projector", self.shape.projector_bytes, "sum of its tensors"))
        limit = self.request.cache_ram_bytes
        if limit:
            terms.append(estimate("prompt_cache", limit, 0, limit, "--cache-ram: finished prompts kept"))
        if self.request.context_checkpoints:
            each = self._checkpoint_bytes(slots)
            full = each * self.request.context_checkpoints * slots.num_slots
            terms.append(estimate("context_checkpoints", full, 0, full, "--ctx-checkpoints per slot"))
        return terms

    def _checkpoint_bytes(self, slots: Slots) -> int:
        """A checkpoint holds what cannot be rolled back: windows and states of one slot."""
        return sum(
            group.count
            * (
                (
                    slots.layer_cells(group) * layer_token_bytes(group, self.key, self.value)
                    if group.window
                    else 0
                )
                + state_elements(group) * STATE_BYTES
            )
            for group in self.shape.layers
        )

    def _draft(self, slots: Slots) -> list[MemoryTerm]:
        """A second context of the same length, in f16 (-ctkd); MTP weights come with the file."""
        draft = self.shape.draft
        if draft is None:
            return []
        f16 = CACHE_TYPES["f16"]
        cache = sum(
            group.count * slots.streams * slots.layer_cells(group) * layer_token_bytes(group, f16, f16)
            for group in draft.layers
        )
        weights = 0 if self.request.mtp else draft.weights_bytes
        return [exact("draft_model", weights + cache, "its tensors, and a cache as long as the model's")]

    def _logical(self, layers: tuple[LayerGroup, ...], context_len: int) -> LogicalCache:
        return logical_cache(
            layers,
            context_len=context_len,
            key=self.key,
            value=self.value,
            encoder_len=self.shape.encoder_len,
        )


def findings(shape: ModelShape, request: PlanRequest, machine: Machine) -> list[Finding]:
    """What llama-server refuses, and what its slots share."""
    key, value = types_of(shape, request, machine)
    found = [*_misaligned(shape, key, value)]
    if _latent(shape) and key != value:
        found.append(
            Finding(
                "cache_types_must_match",
                "error",
                f"latent attention keeps one row for keys and values: not {key.name} and {value.name}",
                {"flag": "--cache-type-v", "k": key.name, "v": value.name},
            )
        )
    if value.quantised and request.flash_attn == "off" and not _latent(shape):
        found.append(
            Finding(
                "cache_type_needs_flash_attention",
                "error",
                f"a quantised V cache ({value.name}) needs flash attention, which is switched off",
                {"flag": "--cache-type-v", "value": value.name, "flash_attn": request.flash_attn},
            )
        )
    if request.kv_unified and request.num_sequences > 1:
        cells = request.context_len * request.num_sequences
        found.append(
            Finding(
                "pool_shared",
                "info",
                f"{request.num_sequences} slots share one pool of {format_tokens(cells)} tokens: a longer "
                "sequence takes from the others",
                {"flag": "--kv-unified", "kv_cells": cells, "num_sequences": request.num_sequences},
            )
        )
    if shape.stored_as == "safetensors":
        found.append(
            Finding(
                "needs_conversion",
                "warning",
                "llama-server reads GGUF: this plan is for a conversion that keeps every dtype",
                {"format": shape.stored_as},
            )
        )
    return found


def _misaligned(shape: ModelShape, key: CacheType, value: CacheType) -> list[Finding]:
    """ggml quantises rows of whole blocks: the head's width must divide by them."""
    sides = (("--cache-type-k", key, "head_dim_k"), ("--cache-type-v", value, "head_dim_v"))
    found = []
    for flag, kind, side in sides:
        dims = {getattr(group, side) or 0 for group in shape.layers}
        odd = sorted(dim for dim in dims if dim % kind.block_len)
        if odd:
            found.append(
                Finding(
                    "cache_type_misaligned",
                    "error",
                    f"{kind.name} stores blocks of {kind.block_len} values, a head has {odd[0]}",
                    {"flag": flag, "value": kind.name, "head_dim": odd[0], "block_len": kind.block_len},
                )
            )
    return found


def _latent(shape: ModelShape) -> bool:
    return any(group.kind == "latent" for group in shape.layers)
