"""Memory of a llama-server command by the planner's own rules, and findings about cache types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ropewalk.checking.diagnostics import Diagnostic, remark
from ropewalk.checking.llama_settings import LlamaServed, LlamaSettings
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines import llama_server
from ropewalk.planner.engines.llama_server import CACHE_TYPES
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import Memory, PlanRequest
from ropewalk.planner.terms import memory_of
from ropewalk.units import MIB, format_bytes

_HOST_CACHES = ("prompt_cache", "context_checkpoints")


def memory_for(
    settings: LlamaSettings, served: LlamaServed, inspection: Inspection, machine: Machine
) -> Memory:
    """All memory terms of the server, term by term as in a plan."""
    slots = served.slots
    request = PlanRequest(
        context_len=slots.n_ctx // slots.num_slots,  # what is lost to rounding is less than the padding
        engine="llama-server",
        num_sequences=slots.num_slots,
        cache_type_k=settings.key_type,
        cache_type_v=settings.value_type,
        batch=slots.n_batch,
        ubatch=slots.n_ubatch,
        flash_attn=settings.flash_attn,
        kv_unified=slots.unified,
        swa_full=slots.swa_full,
        gpu_layers=settings.gpu_layers,
        cache_ram_bytes=max(settings.cache_ram_mib, 0) * MIB,
        context_checkpoints=max(settings.checkpoints, 0),
    )
    memory_model = llama_server.memory_model(shape_of(inspection), request, machine)
    return memory_of(memory_model.estimate_memory(request.context_len, request.num_sequences))


def host_cache_bytes(memory: Memory) -> int:
    """What prompts and checkpoints may fill in host memory beside the cache of the slots."""
    return sum(term.bytes for term in memory.terms if term.name in _HOST_CACHES)


def host_cache_remarks(settings: LlamaSettings, memory: Memory | None) -> Iterator[Diagnostic]:
    """The prompt cache that nobody asked for."""
    if settings.cache_ram_mib == 0:
        return
    size = host_cache_bytes(memory) if memory else settings.cache_ram_mib * MIB
    limit = "without limit" if settings.cache_ram_mib < 0 else f"up to {format_bytes(size)}"
    yield remark(
        "prompt_cache_memory",
        "warning" if settings.cache_ram_mib < 0 or not settings.cache_ram_given else "info",
        f"finished prompts and checkpoints are kept in host memory, {limit} beside all else (--cache-ram "
        f"{settings.cache_ram_mib} MiB, --ctx-checkpoints {settings.checkpoints} per slot)",
        fix="--cache-ram 0 -ctxcp 0, or a limit that the machine can spare",
        flag="--cache-ram",
        bytes=None if settings.cache_ram_mib < 0 else size,
    )


def cache_type_remarks(settings: LlamaSettings, inspection: Inspection | None) -> Iterator[Diagnostic]:
    """Cache types that the engine refuses (src/llama-context.cpp:3838-3873, b11434)."""
    key, value = CACHE_TYPES[settings.key_type], CACHE_TYPES[settings.value_type]
    if value.quantised and settings.flash_attn == "off":
        yield remark(
            "cache_type_needs_flash_attention",
            "error",
            f"a quantised V cache ({value.name}) needs flash attention, which -fa off switches off",
            fix="-fa on",
            edits={"--flash-attn": ("-fa", "on")},
            flag="--cache-type-v",
            value=value.name,
            flash_attn=settings.flash_attn,
        )
    if inspection is None:
        return
    if key.name != value.name and any(group.kind == "latent" for group in inspection.layers):
        yield _pairing(settings)
    if settings.flash_attn != "off":
        yield from _blocks(settings, inspection)


def _pairing(settings: LlamaSettings) -> Diagnostic:
    kind = settings.key_type if settings.key_type != "f16" else settings.value_type
    return remark(
        "cache_types_differ",
        "error",
        f"latent attention keeps one row for keys and values: {settings.key_type} for K and "
        f"{settings.value_type} for V are refused",
        fix=f"-ctk {kind} -ctv {kind}",
        edits={"--cache-type-k": ("-ctk", kind), "--cache-type-v": ("-ctv", kind)},
        flag="--cache-type-v",
        k=settings.key_type,
        v=settings.value_type,
    )


@dataclass(frozen=True, slots=True)
class _Side:
    flag: str
    short: str
    type: str
    dims: frozenset[int]


def _blocks(settings: LlamaSettings, inspection: Inspection) -> Iterator[Diagnostic]:
    """Heads that are no whole number of blocks."""
    layers = inspection.layers
    for side in (
        _Side("--cache-type-k", "-ctk", settings.key_type, frozenset(g.head_dim_k or 0 for g in layers)),
        _Side("--cache-type-v", "-ctv", settings.value_type, frozenset(g.head_dim_v or 0 for g in layers)),
    ):
        block_len = CACHE_TYPES[side.type].block_len
        odd = sorted(dim for dim in side.dims if dim % block_len)
        if odd:
            yield remark(
                "cache_type_block_size",
                "error",
                f"{side.type} keeps blocks of {block_len} values, which do not divide heads of {odd[0]}",
                fix=f"{side.short} f16",
                edits={side.flag: (side.short, "f16")},
                flag=side.flag,
                value=side.type,
                block_len=block_len,
                head_dim=odd[0],
            )
