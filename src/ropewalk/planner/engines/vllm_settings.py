"""What vLLM takes of a request, and what it sets where nothing is asked.

Rules of vLLM 0.32 (November 2026) unless a line says otherwise.
"""

from __future__ import annotations

from math import ceil

from ropewalk.errors import UsageError
from ropewalk.planner.caches import CacheType, cache_types, find_cache_type
from ropewalk.planner.engines import vllm_versions as versions
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.engines.vllm_buckets import BLOCK_UNIT
from ropewalk.planner.engines.vllm_items import BATCH_HOLDS_ITEM, Item, whole_item
from ropewalk.planner.engines.vllm_sparse import FP8_ROW, NVFP4_ROW, stored_type
from ropewalk.planner.machine import DeviceKind, Machine, device_of
from ropewalk.planner.parallel import replica_sequences
from ropewalk.planner.records import PlanRequest
from ropewalk.planner.rope.versions import has
from ropewalk.planner.shape import ModelShape
from ropewalk.units import GIB

# v1/kv_cache_interface.py and mla_attention.py:1360 of vLLM 0.32; per-token-head scales are f32.
_SHARED_TYPES = (
    CacheType("bfloat16", 1, 2),
    CacheType("float16", 1, 2),
    CacheType("fp8", 1, 1),
    CacheType("fp8_e4m3", 1, 1),
    CacheType("fp8_e5m2", 1, 1),
)
CPU_TYPES = cache_types(*_SHARED_TYPES)
GPU_TYPES = cache_types(
    *_SHARED_TYPES,
    CacheType("fp8_inc", 1, 1),
    FP8_ROW,
    NVFP4_ROW,
    CacheType("int8_per_token_head", 1, 1, head_bytes=4),
    CacheType("fp8_per_token_head", 1, 1, head_bytes=4),
    CacheType("int4_per_token_head", 2, 1, head_bytes=4),
    CacheType("nvfp4", 16, 9),
)
# Default --max-num-batched-tokens and --max-num-seqs of a server by device memory (not for A100s), engine/
# arg_utils.py:2898-2960 of 0.32.
_BATCH_DEFAULTS = ((160 * GIB, 16384, 1024), (70 * GIB, 8192, 1024), (0, 2048, 256))
_CPU_BATCHED_TOKENS = 2048
_DTYPES = {"float": 4, "float32": 4, "half": 2, "float16": 2, "bfloat16": 2}
UTILIZATION_PERCENT = 92  # from 0.20 on, config/cache.py:102


def types_of(case: PlanningCase) -> tuple[CacheType, CacheType]:
    """The one cache type, twice, as it is stored; ``auto`` is mostly the model's dtype.

    Raises :class:`UsageError`.
    """
    shape, request, machine = case.shape, case.request, case.machine
    if request.cache_type_k != request.cache_type_v:
        raise UsageError(
            f"vLLM keeps keys and values in one type, not {request.cache_type_k} and {request.cache_type_v}",
            where={"flag": "--cache-type", "k": request.cache_type_k, "v": request.cache_type_v},
        )
    on_cpu = device_of(request, machine, default="gpu") == "cpu"
    if request.cache_type_k == "auto":
        kind = CacheType("auto", 1, dtype_bytes_of(shape, request))
    else:
        kind = find_cache_type(CPU_TYPES if on_cpu else GPU_TYPES, request.cache_type_k, engine="vLLM")
    if not on_cpu:
        kind = stored_type(shape, kind, request.engine_version, machine)
    return kind, kind


def dtype_bytes_of(shape: ModelShape, request: PlanRequest) -> int:
    """As asked; ``auto`` loads float32 in 16 bits (config/model.py, _resolve_auto_dtype)."""
    return _DTYPES.get(request.dtype, min(shape.dtype_bytes, 2))


def state_dtype_bytes(shape: ModelShape, request: PlanRequest, device: DeviceKind) -> int:
    """``--mamba-ssm-cache-dtype``. Processors with AVX-512 for bfloat16 keep states in float32, but for delta
    nets that are asked for 16 bits (platforms/cpu.py:303 of 0.32)."""
    asked = _DTYPES.get(request.mamba_ssm_cache_dtype)
    if device == "cpu":
        return 2 if asked == 2 and shape.delta_net else 4
    return asked or shape.state_dtype_bytes


def usable_bytes(case: PlanningCase) -> int | None:
    """On a GPU the default utilisation of the budget; on the CPU all of it, as bytes are given there."""
    request, machine = case.request, case.machine
    return None if request.memory_bytes is None else _usable(request.memory_bytes, request, machine)


def _usable(budget: int, request: PlanRequest, machine: Machine) -> int:
    on_cpu = device_of(request, machine, default="gpu") == "cpu"
    if on_cpu or request.kv_cache_memory_bytes is not None:  # given bytes overrule the share
        return budget
    return requested_bytes(budget, utilization(request))


def utilization(request: PlanRequest) -> float:
    """``--gpu-memory-utilization``: as asked, else the version's default."""
    asked = request.gpu_memory_utilization
    return versions.default_utilization(request.engine_version) if asked is None else asked


def requested_bytes(total_bytes: int, share: float) -> int:
    """What a server asks for: a share of the whole device, rounded up, whatever is free of it."""
    return ceil(total_bytes * share)


def budgets_of(request: PlanRequest, machine: Machine) -> tuple[int | None, ...]:
    """What the engine may use of each device, by node."""
    if request.node_memory_bytes:
        return tuple(_usable(budget, request, machine) for budget in request.node_memory_bytes)
    budget = request.memory_bytes
    return (None if budget is None else _usable(budget, request, machine),) * request.nodes


def batched_tokens(
    request: PlanRequest,
    machine: Machine,
    *,
    shape: ModelShape | None = None,
    context_len: int | None = None,
    num_sequences: int | None = None,
) -> int:
    """``--max-num-batched-tokens``: as asked, else the server's default for the device's memory, raised to
    the longest item of a ``shape`` that takes its items whole."""
    if request.max_batched_tokens:
        return request.max_batched_tokens
    item = _longest_item(shape, request, machine) if has(BATCH_HOLDS_ITEM, request.engine_version) else None
    if device_of(request, machine, default="gpu") == "cpu":
        default = _CPU_BATCHED_TOKENS * request.tensor_parallel * request.pipeline_parallel
    else:
        default, _ = batch_defaults(request, machine)
    default = max(default, item.tokens) if item else default
    sequences = running_sequences(request, num_sequences or request.num_sequences)
    return min(default, sequences * (context_len or request.context_len))


def _longest_item(shape: ModelShape | None, request: PlanRequest, machine: Machine) -> Item | None:
    if shape is None or request.language_model_only or device_of(request, machine, default="gpu") == "cpu":
        return None
    return whole_item(shape, request.engine_version)


def batch_defaults(request: PlanRequest, machine: Machine) -> tuple[int, int]:
    """Batched tokens and sequences of a GPU's server that is told neither."""
    memory = machine.memory_bytes or request.memory_bytes or 0
    if "A100" in (machine.name or "").upper():
        memory = 0
    tiers = _BATCH_DEFAULTS if has(versions.LARGE_BATCHES, request.engine_version) else _BATCH_DEFAULTS[1:]
    return next((tokens, count) for floor, tokens, count in tiers if memory >= floor)


def running_sequences(request: PlanRequest, num_sequences: int) -> int:
    """``--max-num-seqs`` of one replica: as asked, else as many as are held."""
    return request.max_num_seqs or replica_sequences(request, num_sequences)


def check_settings(request: PlanRequest) -> None:
    """Raise :class:`UsageError` for what vLLM's own options refuse."""
    share = request.gpu_memory_utilization
    if share is not None and not 0 < share <= 1:
        raise UsageError(
            f"--gpu-memory-utilization {share:g} is no share of the memory: above 0 and at most 1",
            where={"flag": "--gpu-memory-utilization", "value": share},
        )
    if request.dtype not in ("auto", *_DTYPES):
        raise UsageError(
            f"vLLM does not compute in {request.dtype!r}; it takes auto, {', '.join(_DTYPES)}",
            where={"flag": "--dtype", "value": request.dtype, "allowed": ["auto", *_DTYPES]},
        )
    batched, running = request.max_batched_tokens, request.max_num_seqs or 1
    if batched is not None and batched < running:
        raise UsageError(
            f"--max-batched-tokens {batched} is less than the {running} sequences that may run at once",
            where={"flag": "--max-batched-tokens", "value": batched, "max_num_seqs": running},
        )


def check_block(request: PlanRequest, device: DeviceKind) -> None:
    size, unit = request.block_size, BLOCK_UNIT[device]
    if size is not None and size % unit:
        raise UsageError(
            f"blocks of {size} tokens: attention on a {device.upper()} takes multiples of {unit}",
            where={"flag": "--block-size", "value": size, "unit": unit},
        )
