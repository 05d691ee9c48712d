"""How llama-server holds a model: cells, slots, cache types of ggml, host and device buffers.

Rules of llama.cpp b11434 (October 2026) unless a line says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from ropewalk.findings import Finding
from ropewalk.planner.caches import CacheType, find_cache_type
from ropewalk.planner.engines.llama_attention import cpu_findings, kernel_findings, missing_kernel, runs_flash
from ropewalk.planner.engines.llama_compute import Graph, graph_of
from ropewalk.planner.engines.llama_memory import CACHE_TYPES, LlamaMemoryModel, rows_of
from ropewalk.planner.engines.llama_places import places_of, spots_of
from ropewalk.planner.engines.llama_split import split_findings
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.machine import Machine, MemoryKind, device_of
from ropewalk.planner.parallel import check_options
from ropewalk.planner.records import AdviceKind, PlanRequest, Traffic
from ropewalk.planner.roofline import Attained
from ropewalk.planner.shape import ModelShape
from ropewalk.units import format_tokens

FIT_TYPES = ("f16", "q8_0", "q5_1", "q4_0")
MAX_SEQUENCES = 256  # LLAMA_MAX_SEQ (src/llama-cparams.h): more and the context is not made
# One request at a time, decoding and prompts of 1,024 tokens, on single cards and Macs: what published rows
# of llama.cpp reach of the makers' figures (docs/speeds.json). Left out: prompts in f16 on the L40S and the
# A100, where cuBLAS of mid-2024 was 2 to 9 times slower than with quantised weights on the same card.
_ROWS = "what published rows of llama.cpp reach of the card's figures, docs/exactness.md"
ATTAINED: Mapping[MemoryKind, Attained] = {
    "gddr": Attained((0.9, 0.9), (150e-6, 30e-6), (0.2, 1.0), _ROWS),
    "hbm": Attained((0.9, 0.9), (340e-6, 60e-6), (0.13, 0.5), _ROWS),
    "unified": Attained((0.9, 0.9), (520e-6, 50e-6), (0.2, 0.6), _ROWS),
}
_OPTIONS = frozenset({
    "tensor_split", "rpc_servers", "node_memory_bytes", "projector", "n_cpu_moe", "cpu_moe",
    "override_tensor", "split_mode", "main_gpu",
})  # fmt: skip


def types_of(case: PlanningCase) -> tuple[CacheType, CacheType]:
    """The cache types of keys and values; ``auto`` is f16. Raises :class:`UsageError`."""
    request = case.request
    key, value = ("f16" if name == "auto" else name for name in (request.cache_type_k, request.cache_type_v))
    return (
        find_cache_type(CACHE_TYPES, key, engine="llama-server"),
        find_cache_type(CACHE_TYPES, value, engine="llama-server"),
    )


def usable_bytes(case: PlanningCase) -> int | None:
    """All of the budget."""
    return case.request.memory_bytes


def memory_model(case: PlanningCase) -> LlamaMemoryModel:
    """Place the layers. Raises :class:`UsageError` for a cache type that ggml has not, and for a split that
    is not one of the devices."""
    shape, request, machine = case.shape, case.request, case.machine
    check_options(request, _OPTIONS)
    key, value = types_of(case)
    on_gpu = device_of(request, machine, default="cpu") == "gpu" and request.gpu_layers != 0
    asked = request.gpus_per_node or request.tensor_parallel * request.pipeline_parallel
    spots = spots_of(request, asked if on_gpu else 0)
    missing = missing_kernel(shape, key, value, request.engine_version)
    uses_gpu = any(spot.kind == "gpu" for spot in spots)
    return LlamaMemoryModel(
        shape=shape,
        request=request,
        key=key,
        value=value,
        rows=tuple(rows_of(group, key, value) for group in shape.layers),
        places=places_of(shape, request, spots),
        graph=graph_of(shape, key, value),
        draft_graph=_draft_graph(shape),
        missing=missing,
        flash=runs_flash(request.flash_attn, value, missing if uses_gpu else None),
        cache_basis="estimate" if shape.pools_tokens else "exact",
    )


def _draft_graph(shape: ModelShape) -> Graph | None:
    """Of a draft that is a model of its own; its cache is f16."""
    model, f16 = shape.draft and shape.draft.model, CACHE_TYPES["f16"]
    return graph_of(model, f16, f16) if model else None


def traffic(case: PlanningCase) -> tuple[Traffic, ...]:
    """No rule is known."""
    return ()


def alternatives(case: PlanningCase) -> tuple[tuple[AdviceKind, PlanRequest], ...]:
    """None: layers go where the shares of the devices put them."""
    return ()


def findings(case: PlanningCase) -> list[Finding]:
    """What llama-server refuses, and what its slots share."""
    shape, request, machine = case.shape, case.request, case.machine
    key, value = types_of(case)
    found = [*_misaligned(shape, key, value)]
    if shape.encoder_only:
        message = f"{request.engine} generates text, and this model is an encoder alone: it does not start"
        found.append(Finding("encoder_only", "error", message, {"engine": request.engine}))
    if _latent(shape) and key != value:
        found.append(
            Finding(
                "cache_types_must_match",
                "error",
                f"latent attention keeps one row for keys and values: not {key.name} and {value.name}",
                {"flag": "--cache-type-v", "k": key.name, "v": value.name},
            )
        )
    if value.quantised and request.flash_attn == "off":
        found.append(
            Finding(
                "cache_type_needs_flash_attention",
                "error",
                f"a quantised V cache ({value.name}) needs flash attention, which is switched off",
                {"flag": "--cache-type-v", "value": value.name, "flash_attn": request.flash_attn},
            )
        )
    found += [*_attention_findings(shape, request, machine, key, value), *split_findings(request)]
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
                f"{request.engine} reads GGUF: this plan is for a conversion that keeps every dtype",
                {"format": shape.stored_as},
            )
        )
    return found


def _attention_findings(
    shape: ModelShape, request: PlanRequest, machine: Machine, key: CacheType, value: CacheType
) -> list[Finding]:
    """What a cache does to the speed of attention, on the device that is planned for."""
    if device_of(request, machine, default="cpu") == "gpu" and request.gpu_layers != 0:
        flash = "on" if value.quantised and request.flash_attn == "auto" else request.flash_attn
        missing = missing_kernel(shape, key, value, request.engine_version)
        return kernel_findings(missing, flash=flash, value=value)
    return [] if request.rpc_servers else cpu_findings(key, value, request.context_len)


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
