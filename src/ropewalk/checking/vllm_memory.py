"""Memory of a vLLM command by the planner's own rules: the pool of this start, and whether it is enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ropewalk.checking.diagnostics import Diagnostic, diagnostic, set_flag
from ropewalk.checking.vllm_settings import VllmServed, VllmSettings
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines import vllm
from ropewalk.planner.engines.vllm_capacity import Capacity, capacity, estimated_max_len, needed_bytes
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import Memory
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import CACHES, MemoryEstimate, memory_of
from ropewalk.units import format_bytes
from ropewalk.units import format_tokens as tokens


@dataclass(frozen=True, slots=True)
class Pool:
    """What a start takes for its KV cache on each rank, and what vLLM reports of it.

    ``low`` and ``high`` are the ends where it is what the other terms leave of the device, ``fixed`` is True
    where the command gives the size; ``room`` then are the ends of what is left of the device for it, None
    where that is not known. ``max_len`` is the longest length that vLLM would name, at both ends.
    """

    low: int
    high: int
    fixed: bool
    room: tuple[int, int] | None
    capacity: Capacity
    max_len: tuple[int, int]


@dataclass(frozen=True, slots=True)
class VllmMemory:
    """``needed_bytes`` is what one request of full length takes on the rank that holds most; ``pool`` is
    None where neither the command nor the machine tells its size."""

    memory: Memory
    needed_bytes: int
    pool: Pool | None

    @property
    def is_judged(self) -> bool:
        """Whether the start was held against the memory of the device, with an answer."""
        pool = self.pool
        if pool is None or pool.room is None or pool.low < self.needed_bytes <= pool.high:
            return False
        return not (pool.fixed and pool.room[0] < pool.high <= pool.room[1])


def memory_for(
    settings: VllmSettings,
    served: VllmServed,
    inspection: Inspection,
    machine: Machine,
    *,
    version: str | None,
) -> VllmMemory | None:
    """Plan one request of full length; None where that cannot be planned here."""
    heads = inspection.value("num_attention_heads")
    known = {"auto", *(vllm.CPU_TYPES if settings.on_cpu else vllm.GPU_TYPES)}
    if (heads or 0) % settings.tensor_parallel or settings.kv_cache_dtype not in known:
        return None
    if settings.full_precision:  # the planner knows the 16 bits that vLLM takes by default
        return None
    request = replace(settings.request, context_len=served.served_len)
    memory_model = vllm.memory_model(_shape(settings, inspection), request, machine)
    estimate = memory_model.estimate_memory(served.served_len, 1)
    return VllmMemory(
        memory=memory_of(estimate),
        needed_bytes=needed_bytes(memory_model, served.served_len),
        pool=_pool(settings, served, memory_model, estimate, machine, version),
    )


def _shape(settings: VllmSettings, inspection: Inspection) -> ModelShape:
    shape = shape_of(inspection, mtp=settings.request.mtp)
    if settings.state_dtype is None:
        return shape
    return replace(shape, state_dtype_bytes=settings.state_dtype)


def _pool(
    settings: VllmSettings,
    served: VllmServed,
    memory_model: vllm.VllmMemoryModel,
    estimate: MemoryEstimate,
    machine: Machine,
    version: str | None,
) -> Pool | None:
    room = _room(settings, estimate, machine)
    fixed = settings.kv_cache_bytes
    ends = room if fixed is None else (fixed, fixed)
    if ends is None:
        return None
    low, high = ends
    limit = max(served.served_len, served.derived_len)
    return Pool(
        low=low,
        high=high,
        fixed=fixed is not None,
        room=room,
        capacity=capacity(memory_model, max(low, 0), context_len=served.served_len, engine_version=version),
        max_len=(
            estimated_max_len(memory_model, max(low, 0), limit=limit),
            estimated_max_len(memory_model, max(high, 0), limit=limit),
        ),
    )


def _room(settings: VllmSettings, estimate: MemoryEstimate, machine: Machine) -> tuple[int, int] | None:
    """What is left of the tightest device for the cache, of its share or, for a given size, of all of it."""
    if machine.memory_bytes is None:
        return None
    share = machine.memory_bytes
    if settings.kv_cache_bytes is None and not settings.on_cpu:
        share = int(share * settings.utilization)
    beside = [[term for term in device.terms if term.name not in CACHES] for device in estimate.devices]
    return (
        share - max(sum(term.high_bytes for term in terms) for terms in beside),
        share - max(sum(term.low_bytes for term in terms) for terms in beside),
    )


def memory_diagnostics(
    settings: VllmSettings, served: VllmServed, memory: VllmMemory
) -> Iterator[Diagnostic]:
    """A pool that does not hold one request of full length."""
    pool = memory.pool
    if pool is None:
        return
    if pool.fixed and pool.room is not None and pool.high > pool.room[0]:
        yield _too_large(pool, pool.room)
    if memory.needed_bytes <= pool.low:
        return
    if settings.max_model_len == -1 and pool.max_len[0]:
        yield diagnostic(
            "context_may_shrink",
            "info",
            f"--max-model-len auto resolves to {tokens(pool.max_len[0])} tokens in {format_bytes(pool.low)}",
            fix=f"--max-model-len {pool.max_len[0]}",
            flag="--max-model-len",
            max_context_len=pool.max_len[0],
        )
    elif memory.needed_bytes > pool.high:
        yield _refused(served, memory, pool)
    else:
        yield _undecided(served, memory, pool)


def _refused(served: VllmServed, memory: VllmMemory, pool: Pool) -> Diagnostic:
    """vLLM's own refusal, "... GiB KV cache is needed, which is larger than the available"."""
    low, high = pool.max_len
    longest = tokens(low) if low == high else f"{tokens(low)} to {tokens(high)}"
    given = f"{format_bytes(pool.high)} {'are given' if pool.fixed else 'at most are left'}"
    return diagnostic(
        "does_not_fit",
        "error",
        f"one request of {tokens(served.served_len)} tokens needs {format_bytes(memory.needed_bytes)} of KV "
        f"cache, {given}: vLLM stops" + (f"; {longest} tokens would fit" if high else ""),
        fix=f"--max-model-len {low}" if low else f"--kv-cache-memory-bytes {memory.needed_bytes}",
        repair=set_flag("--max-model-len", low) if low else None,
        flag="--kv-cache-memory-bytes" if pool.fixed else "--max-model-len",
        needed_bytes=memory.needed_bytes,
        usable_bytes=pool.high,
        max_context_len=low or None,
    )


def _too_large(pool: Pool, room: tuple[int, int]) -> Diagnostic:
    """A cache of a given size beside weights and all else."""
    low, high = (max(end, 0) for end in room)
    message = (
        f"{format_bytes(pool.high)} are given to the KV cache, {format_bytes(low)} to {format_bytes(high)} "
        "of the device are left beside the weights and all else"
    )
    flag = "--kv-cache-memory-bytes"
    fix = f"{flag} {low}" if low else "a larger device"
    if pool.high <= high:
        return diagnostic(
            "memory_unknown", "warning", message, fix=fix, flag=flag, low_bytes=low, high_bytes=high
        )
    return diagnostic(
        "does_not_fit",
        "error",
        message,
        fix=fix,
        repair=set_flag(flag, low) if low else None,
        flag=flag,
        needed_bytes=pool.high,
        usable_bytes=high,
    )


def _undecided(served: VllmServed, memory: VllmMemory, pool: Pool) -> Diagnostic:
    """A need between what is left at least and at most."""
    return diagnostic(
        "memory_unknown",
        "warning",
        f"one request of {tokens(served.served_len)} tokens needs {format_bytes(memory.needed_bytes)} of KV "
        f"cache, {format_bytes(max(pool.low, 0))} to {format_bytes(pool.high)} are left: whether vLLM starts "
        "is not known",
        fix=f"--max-model-len {pool.max_len[0]}" if pool.max_len[0] else "less beside the cache",
        flag="--max-model-len",
        needed_bytes=memory.needed_bytes,
        low_bytes=pool.low,
        high_bytes=pool.high,
    )
