"""Memory of a vLLM command: the pool of this start, and whether vLLM refuses it.

All figures are those of :mod:`ropewalk.planner.engines.vllm_capacity`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ropewalk.checking.diagnostics import Diagnostic, Repair, diagnostic, set_flag
from ropewalk.checking.vllm_settings import VllmServed, VllmSettings
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines import vllm, vllm_settings
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.engines.vllm_capacity import (
    Refusal,
    StartPool,
    estimated_max_len,
    needed_bytes,
    start_pool,
    start_refusal,
)
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import Memory
from ropewalk.planner.terms import CACHES, MemoryEstimate, memory_of
from ropewalk.units import format_bytes
from ropewalk.units import format_tokens as tokens

_CPU_SEQUENCES = 128  # --max-num-seqs of a CPU's server, engine/arg_utils.py of 0.32


@dataclass(frozen=True, slots=True)
class VllmMemory:
    """One start: ``needed_bytes`` is what a request of full length takes on the rank that holds most.

    ``pool`` is None where neither the command nor the machine tells its size; ``fixed``: the command does.
    ``room`` are the ends of what the device has left for a cache of a given size, None where that is not
    known. ``refusal`` is vLLM's, ``longest`` the length that starts for certain, 0 for none.
    """

    memory: Memory
    needed_bytes: int
    pool: StartPool | None
    fixed: bool
    room: tuple[int, int] | None
    refusal: Refusal | None
    longest: int

    @property
    def is_judged(self) -> bool:
        """Whether the start was held against the memory of the device, with an answer."""
        if self.pool is None or self.room is None or (self.refusal and not self.refusal.certain):
            return False
        return not (self.fixed and self.room[0] < self.pool.available.high <= self.room[1])


def memory_for(
    settings: VllmSettings,
    served: VllmServed,
    inspection: Inspection,
    machine: Machine,
) -> VllmMemory | None:
    """Plan one request of full length; None where that cannot be planned here."""
    heads = inspection.value("num_attention_heads")
    known = {"auto", *(vllm_settings.CPU_TYPES if settings.on_cpu else vllm_settings.GPU_TYPES)}
    if (heads or 0) % settings.tensor_parallel or settings.kv_cache_dtype not in known:
        return None
    running = settings.max_num_seqs or default_sequences(settings, machine)
    request = replace(settings.request, context_len=served.served_len, max_num_seqs=running)
    shape = shape_of(inspection, mtp=request.mtp)
    memory_model = vllm.memory_model(PlanningCase(shape, request, machine))
    length = served.served_len
    estimate = memory_model.estimate_memory(length, 1)
    room = _room(settings, memory_model, length, running, machine)
    if settings.on_cpu and request.kv_cache_memory_bytes is None:
        return _on_cpu(served, memory_model, estimate, room)
    pool = start_pool(memory_model, length, running)
    return VllmMemory(
        memory=memory_of(estimate),
        needed_bytes=needed_bytes(memory_model, length),
        pool=pool,
        fixed=request.kv_cache_memory_bytes is not None,
        room=room,
        refusal=start_refusal(memory_model, length, running),
        longest=_longest(served, memory_model, pool),
    )


def default_sequences(settings: VllmSettings, machine: Machine) -> int:
    """``--max-num-seqs`` of a server that is not told."""
    default = (
        _CPU_SEQUENCES if settings.on_cpu else vllm_settings.batch_defaults(settings.request, machine)[1]
    )
    return min(default, settings.request.max_batched_tokens or default)


def _longest(served: VllmServed, memory_model: vllm.VllmMemoryModel, pool: StartPool | None) -> int:
    if pool is None:
        return 0
    return estimated_max_len(
        memory_model, pool.available.low, limit=max(served.served_len, served.derived_len)
    )


def _room(
    settings: VllmSettings, memory_model: vllm.VllmMemoryModel, length: int, running: int, machine: Machine
) -> tuple[int, int] | None:
    """What is left for the cache of the tightest device: of the share, or of all of it for a given size."""
    if machine.memory_bytes is None:
        return None
    given = settings.request.kv_cache_memory_bytes is not None
    usable = machine.memory_bytes if given else _share(settings, machine.memory_bytes)
    ends = [
        (
            usable - sum(term.high_bytes for term in terms if term.name not in CACHES),
            usable - sum(term.low_bytes for term in terms if term.name not in CACHES),
        )
        for _, _, terms in memory_model.rank_terms(length, running)
    ]
    return min(ends)


def _share(settings: VllmSettings, memory_bytes: int) -> int:
    return vllm_settings.requested_bytes(memory_bytes, vllm_settings.utilization(settings.request))


def _on_cpu(
    served: VllmServed,
    memory_model: vllm.VllmMemoryModel,
    estimate: MemoryEstimate,
    room: tuple[int, int] | None,
) -> VllmMemory:
    """A CPU's server that is given no size takes what its share of the memory leaves."""
    length = served.served_len
    memory, needed = memory_of(estimate), needed_bytes(memory_model, length)
    if room is None:
        return VllmMemory(memory, needed, None, False, None, None, 0)

    def sized(size: int) -> vllm.VllmMemoryModel:
        return replace(
            memory_model, request=replace(memory_model.request, kv_cache_memory_bytes=max(size, 0))
        )

    low, high = sized(room[0]), sized(room[1])
    refusal, at_best = start_refusal(low, length, 1), start_refusal(high, length, 1)
    pool = start_pool(low, length, 1)
    return VllmMemory(
        memory=memory,
        needed_bytes=needed,
        pool=pool,
        fixed=False,
        room=room,
        refusal=refusal and replace(refusal, certain=at_best is not None),
        longest=_longest(served, low, pool),
    )


def memory_diagnostics(
    settings: VllmSettings, served: VllmServed, memory: VllmMemory
) -> Iterator[Diagnostic]:
    """What vLLM stops at for want of memory, or may."""
    pool, refusal = memory.pool, memory.refusal
    if pool is not None and memory.fixed and memory.room and pool.available.high > memory.room[0]:
        yield _too_large(pool, memory.room)
    if refusal is None:
        return
    if refusal.reason == "length" and settings.max_model_len == -1 and memory.longest:
        yield diagnostic(
            "context_may_shrink",
            "info",
            f"--max-model-len auto resolves to {tokens(memory.longest)} tokens",
            fix=f"--max-model-len {memory.longest}",
            flag="--max-model-len",
            max_context_len=memory.longest,
        )
    elif refusal.certain:
        yield _refused(served, memory, refusal)
    else:
        yield diagnostic(
            "memory_unknown",
            "warning",
            f"vLLM may stop: {_why(served, memory, refusal)}",
            fix=_way_out(memory, refusal)[0],
            flag="--max-model-len",
            figures=dict(refusal.figures),
        )


def _refused(served: VllmServed, memory: VllmMemory, refusal: Refusal) -> Diagnostic:
    """vLLM's own reason, with the longest length that it would name."""
    fix, repair = _way_out(memory, refusal)
    return diagnostic(
        "does_not_fit",
        "error",
        f"vLLM stops: {_why(served, memory, refusal)}",
        fix=fix,
        repair=repair,
        flag="--kv-cache-memory-bytes" if memory.fixed else "--max-model-len",
        needed_bytes=refusal.figures.get("needed_bytes", memory.needed_bytes),
        usable_bytes=refusal.figures.get("available_bytes"),
        max_context_len=refusal.longest or None,
        reason=refusal.message,
    )


def _why(served: VllmServed, memory: VllmMemory, refusal: Refusal) -> str:
    if refusal.reason == "no_memory":
        return "nothing of its share of the memory is left for the KV cache"
    if refusal.reason == "sequences":
        return refusal.message
    given = format_bytes(max(refusal.figures["available_bytes"], 0))
    longest = refusal.longest or 0
    return (
        f"one request of {tokens(served.served_len)} tokens needs {format_bytes(memory.needed_bytes)} of KV "
        f"cache, {given} {'are given' if memory.fixed else 'are left'}"
        + (f"; {tokens(longest)} tokens would fit" if longest else "")
    )


def _way_out(memory: VllmMemory, refusal: Refusal) -> tuple[str, Repair | None]:
    """What to write, and the repair where one is certain to start."""
    if refusal.reason == "sequences" and memory.pool is not None and memory.pool.low.num_blocks:
        repair = set_flag("--max-num-seqs", memory.pool.low.num_blocks)
        return repair.text, repair
    if memory.longest:
        repair = set_flag("--max-model-len", memory.longest)
        return repair.text, repair
    if memory.fixed:
        return f"--kv-cache-memory-bytes {memory.needed_bytes}", None
    return "a larger device, more of them (--tensor-parallel-size), or a smaller model", None


def _too_large(pool: StartPool, room: tuple[int, int]) -> Diagnostic:
    """A cache of a given size beside weights and all else."""
    low, high = (max(end, 0) for end in room)
    given, flag = pool.available.high, "--kv-cache-memory-bytes"
    message = (
        f"{format_bytes(given)} are given to the KV cache, {format_bytes(low)} to {format_bytes(high)} "
        "of the device are left beside the weights and all else"
    )
    fix = f"{flag} {low}" if low else "a larger device"
    if given <= high:
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
        needed_bytes=given,
        usable_bytes=high,
    )
