"""How vLLM holds a model: shards and stages, one pool of blocks per rank, what it profiles beside it.

Rules of vLLM 0.32 (November 2026) unless a line says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ropewalk.errors import UsageError
from ropewalk.findings import Finding
from ropewalk.planner.caches import CacheType, cache_types, find_cache_type
from ropewalk.planner.engines.vllm_buckets import BLOCK_UNIT, Paging, block_size, buckets_of, state_bytes
from ropewalk.planner.engines.vllm_estimates import (
    activations,
    graphs,
    latent_workspace,
    process_overhead,
)
from ropewalk.planner.engines.vllm_partitions import alternatives as alternatives
from ropewalk.planner.engines.vllm_partitions import cut_findings
from ropewalk.planner.engines.vllm_partitions import traffic as traffic
from ropewalk.planner.engines.vllm_pool import Pool, make_pool
from ropewalk.planner.engines.vllm_ranks import RankKind, check_ranks, kinds_of, place_ranks
from ropewalk.planner.layers_cache import LogicalCache, logical_cache
from ropewalk.planner.machine import DeviceKind, Machine, device_of
from ropewalk.planner.parallel import check_options, pipeline_stages, replica_sequences
from ropewalk.planner.records import Basis, KvCache, MemoryTerm, PlanRequest, RankPlace
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import CACHES, DeviceMemory, MemoryEstimate, cache_bytes, exact, with_places
from ropewalk.planner.weights import StageWeights, stage_weights, weights_term
from ropewalk.units import GIB, format_bytes

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
    CacheType("fp8_ds_mla", 576, 656),
    CacheType("nvfp4_ds_mla", 576, 352),
    CacheType("int8_per_token_head", 1, 1, head_bytes=4),
    CacheType("fp8_per_token_head", 1, 1, head_bytes=4),
    CacheType("int4_per_token_head", 2, 1, head_bytes=4),
    CacheType("nvfp4", 16, 9),
)
FIT_TYPES = ("auto", "fp8")
MAX_SEQUENCES = None
_OPTIONS = frozenset({
    "data_parallel", "expert_parallel", "decode_context_parallel", "nodes", "node_memory_bytes",
    "layer_partition", "block_size", "fit",
})  # fmt: skip

UTILIZATION_PERCENT = 92  # config/cache.py:102, of the device's whole memory
# Default --max-num-batched-tokens of a server by device memory, engine/arg_utils.py:2898-2960.
_BATCHED_TOKENS = ((160 * GIB, 16384), (70 * GIB, 8192), (0, 2048))
_CPU_BATCHED_TOKENS = 2048


def types_of(shape: ModelShape, request: PlanRequest, machine: Machine) -> tuple[CacheType, CacheType]:
    """The one cache type, twice; ``auto`` is the model's dtype. Raises :class:`UsageError`."""
    if request.cache_type_k != request.cache_type_v:
        raise UsageError(
            f"vLLM keeps keys and values in one type, not {request.cache_type_k} and {request.cache_type_v}",
            where={"flag": "--cache-type", "k": request.cache_type_k, "v": request.cache_type_v},
        )
    if request.cache_type_k == "auto":
        kind = CacheType("auto", 1, _dtype_bytes(shape))
    else:
        table = CPU_TYPES if device_of(request, machine, default="gpu") == "cpu" else GPU_TYPES
        kind = find_cache_type(table, request.cache_type_k, engine="vLLM")
    return kind, kind


def _dtype_bytes(shape: ModelShape) -> int:
    """``--dtype auto`` loads float32 in 16 bits (config/model.py, _resolve_auto_dtype)."""
    return min(shape.dtype_bytes, 2)


def usable_bytes(request: PlanRequest, machine: Machine) -> int | None:
    """On a GPU the default utilisation of the budget; on the CPU all of it, as bytes are given there."""
    return None if request.memory_bytes is None else _usable(request.memory_bytes, request, machine)


def _usable(budget: int, request: PlanRequest, machine: Machine) -> int:
    on_cpu = device_of(request, machine, default="gpu") == "cpu"
    return budget if on_cpu else budget * UTILIZATION_PERCENT // 100


def _budgets(request: PlanRequest, machine: Machine) -> tuple[int | None, ...]:
    """What the engine may use of each device, by node."""
    if request.node_memory_bytes:
        return tuple(_usable(budget, request, machine) for budget in request.node_memory_bytes)
    return (usable_bytes(request, machine),) * request.nodes


def batched_tokens(
    request: PlanRequest,
    machine: Machine,
    *,
    context_len: int | None = None,
    num_sequences: int | None = None,
) -> int:
    """``--max-num-batched-tokens``: as asked, else the server's default for the device's memory."""
    if request.max_batched_tokens:
        return request.max_batched_tokens
    if device_of(request, machine, default="gpu") == "cpu":
        default = _CPU_BATCHED_TOKENS * request.tensor_parallel * request.pipeline_parallel
    else:
        memory = machine.memory_bytes or request.memory_bytes or 0
        default = next(tokens for floor, tokens in _BATCHED_TOKENS if memory >= floor)
    sequences = replica_sequences(request, num_sequences or request.num_sequences)
    return min(default, sequences * (context_len or request.context_len))


def memory_model(shape: ModelShape, request: PlanRequest, machine: Machine) -> VllmMemoryModel:
    """Work out the pool and the ranks. Raises :class:`UsageError` where vLLM would refuse the ranks."""
    check_options(request, _OPTIONS)
    check_ranks(shape, request)
    device = device_of(request, machine, default="gpu")
    _check_block(request, device)
    key, _ = types_of(shape, request, machine)
    paging = Paging(
        device=device,
        tensor_parallel=request.tensor_parallel,
        cache_type=key,
        dtype_bytes=_dtype_bytes(shape),
        state_dtype_bytes=shape.state_dtype_bytes,
        context_parallel=request.decode_context_parallel,
        block_size=request.block_size,
    )
    stages = pipeline_stages(shape.num_layers, request.pipeline_parallel, partition=request.layer_partition)
    whole = replace(paging, tensor_parallel=1)
    states = [group for group in shape.layers if group.state]
    kinds = kinds_of(shape, request, _budgets(request, machine))
    return VllmMemoryModel(
        shape=shape,
        request=request,
        machine=machine,
        device=device,
        cache_type=key,
        stages=stages,
        block_size=block_size(shape, paging),
        # Chunked attention switches the hybrid manager off (config/vllm.py:2170-2196).
        pool=make_pool(buckets_of(shape, paging), hybrid=all(g.kind != "chunked" for g in shape.layers)),
        weights=stage_weights(shape, stages, request.tensor_parallel),
        kinds=kinds,
        alike=tuple(dict.fromkeys(kinds)),
        sequence_state_bytes=sum(state_bytes(group, whole) * group.count for group in states),
    )


def _check_block(request: PlanRequest, device: DeviceKind) -> None:
    size, unit = request.block_size, BLOCK_UNIT[device]
    if size is not None and size % unit:
        raise UsageError(
            f"blocks of {size} tokens: attention on a {device.upper()} takes multiples of {unit}",
            where={"flag": "--block-size", "value": size, "unit": unit},
        )


@dataclass(frozen=True, slots=True)
class _Step:
    """What a length and a number of sequences come to: blocks of each group for one replica, and what
    every rank needs beside weights and cache."""

    blocks: list[int]
    sequences: int
    beside: list[MemoryTerm]


@dataclass(frozen=True, slots=True)
class VllmMemoryModel:
    """What does not depend on length and number of sequences.

    ``kinds`` has every rank, ``alike`` each kind once.
    """

    shape: ModelShape
    request: PlanRequest
    machine: Machine
    device: DeviceKind
    cache_type: CacheType
    stages: tuple[tuple[int, int], ...]
    block_size: int
    pool: Pool
    weights: tuple[StageWeights, ...]
    kinds: tuple[RankKind, ...]
    alike: tuple[RankKind, ...]
    sequence_state_bytes: int

    @property
    def step(self) -> int:
        """Tokens come in whole blocks."""
        return self.block_size

    def in_flight(self, context_len: int, batched: int) -> int:
        """Tokens scheduled and not yet settled: one batch per step that may run at once.

        Two with the asynchronous scheduling of a GPU, one more than the stages with a pipeline
        (config/vllm.py:577-598). Latent attention on a CPU prefills whole prompts.
        """
        if self.device == "gpu":
            return batched * (len(self.stages) + 1)
        if any(group.kind == "latent" for group in self.shape.layers):
            return context_len
        return batched * len(self.stages)

    def bytes_per_block(self, number: int) -> int:
        """Bytes of one block on each rank of a stage."""
        return self.pool.bytes_per_block(self._pool_stage(number))

    def request_blocks(self, context_len: int) -> int:
        """Blocks that one request of this length may claim."""
        batched = batched_tokens(self.request, self.machine, context_len=context_len)
        return self.pool.request_blocks(context_len, self.in_flight(context_len, batched))

    def estimate_memory(self, context_len: int, num_sequences: int) -> MemoryEstimate:
        """The pool holds every sequence's blocks and the one block that vLLM never hands out."""
        step = self._step(context_len, num_sequences)
        terms = {kind: self._terms(kind, step) for kind in self.alike}
        devices = [
            DeviceMemory(f"{self.device}:{rank}", self.stages[kind.stage], terms[kind], kind.usable_bytes)
            for rank, kind in enumerate(self.kinds)
        ]
        if len(devices) > 1:
            devices = with_places(devices, self._with_blocks(terms))
        logical = self._logical(context_len)
        return MemoryEstimate(
            tuple(devices),
            self._kv(logical, devices, sum(step.blocks), num_sequences),
            logical.terms(num_sequences, state_bytes=self.sequence_state_bytes),
        )

    def shortfall_bytes(self, context_len: int, num_sequences: int) -> int:
        """:attr:`Priced.shortfall_bytes` of :meth:`estimate_memory`, for the price of one rank of each
        kind."""
        step = self._step(context_len, num_sequences)
        return max(
            sum(term.high_bytes for term in self._terms(kind, step)) - kind.usable_bytes
            for kind in self.alike
            if kind.usable_bytes is not None
        )

    def _step(self, context_len: int, num_sequences: int) -> _Step:
        batched = batched_tokens(
            self.request, self.machine, context_len=context_len, num_sequences=num_sequences
        )
        sequences = replica_sequences(self.request, num_sequences)
        blocks = self.pool.group_blocks(context_len, self.in_flight(context_len, batched))
        return _Step(blocks, sequences, self._beside(context_len, sequences, batched))

    def _terms(self, kind: RankKind, step: _Step) -> tuple[MemoryTerm, ...]:
        """The terms of a rank of this kind."""
        process = process_overhead(
            self.shape,
            self.device,
            serves=kind.serves,
            joins=kind.joins,
            balances=kind.leads and self.request.data_parallel > 1,
        )
        caches = self._caches(self._pool_stage(kind.stage), step.blocks, step.sequences)
        return (*self._weights(kind), *caches, *step.beside, process)

    def _with_blocks(self, terms: dict[RankKind, tuple[MemoryTerm, ...]]) -> list[RankPlace]:
        """The places with the blocks that each rank has room for beside everything else."""
        blocks = {kind: self._blocks(kind, held) for kind, held in terms.items()}
        places = place_ranks(self.shape, self.request, _budgets(self.request, self.machine))
        return [replace(place, blocks=blocks[kind]) for place, kind in zip(places, self.kinds, strict=True)]

    def _blocks(self, kind: RankKind, terms: tuple[MemoryTerm, ...]) -> int | None:
        each = self.bytes_per_block(kind.stage)
        if kind.usable_bytes is None or not each:
            return None
        beside = sum(term.high_bytes for term in terms if term.name not in CACHES)
        return max(0, kind.usable_bytes - beside) // each

    def _weights(self, kind: RankKind) -> list[MemoryTerm]:
        number, ranks = kind.stage, self.request.tensor_parallel
        basis: Basis = "engine_rule" if len(self.kinds) > 1 else "exact"
        size = self._weight_bytes(kind) * _dtype_bytes(self.shape) // self.shape.dtype_bytes
        terms = [weights_term(self.shape, size, source="sum of the tensors", basis=basis)]
        if self.shape.projector_bytes and number == 0:
            terms.append(exact("projector", self.shape.projector_bytes // ranks, "sum of the tensors"))
        if self.shape.draft and number == len(self.stages) - 1:
            drafter = self.shape.draft.weights_bytes // ranks
            terms.append(exact("draft_model", drafter, "sum of the tensors; its cache is in the pool"))
        return terms

    def _weight_bytes(self, kind: RankKind) -> int:
        """Experts whole, or a slice of each on the shards of all replicas (fused_moe/config.py:1185)."""
        stage = self.weights[kind.stage]
        if kind.experts is not None:
            return stage.on_rank(kind.experts, self.shape.num_experts)
        return stage.on_rank(1, self.request.tensor_parallel * self.request.data_parallel)

    def _pool_stage(self, number: int) -> tuple[int, int]:
        """The layers of a stage; the last holds the draft's as well."""
        first, last = self.stages[number]
        drafts = sum(group.count for group in self.shape.draft.layers) if self.shape.draft else 0
        return (first, last + drafts) if number == len(self.stages) - 1 else (first, last)

    def _caches(self, stage: tuple[int, int], blocks: list[int], num_sequences: int) -> list[MemoryTerm]:
        counts = [count * num_sequences for count in blocks]
        alone = len(counts) == 1
        sizes = self.pool.cache_bytes(stage, [counts[0] + 1] if alone else counts)
        if len(counts) > 1:
            sizes["kv_cache"] = sizes.get("kv_cache", 0) + self.pool.bytes_per_block(stage)
        source = f"blocks of {self.block_size} tokens and one null block"
        basis: Basis = "estimate" if self.shape.pools_tokens else "engine_rule"
        return [exact(name, size, source, basis=basis) for name, size in sizes.items()]

    def _beside(self, context_len: int, num_sequences: int, batched: int) -> list[MemoryTerm]:
        workspace = latent_workspace(
            self.shape, context_len=context_len, num_sequences=num_sequences, block_size=self.block_size
        )
        peak = activations(
            self.shape,
            tokens=batched,
            num_sequences=num_sequences,
            workspace=workspace,
            tensor_parallel=self.request.tensor_parallel,
        )
        return [peak, graphs()] if self.device == "gpu" else [peak]

    def _logical(self, context_len: int) -> LogicalCache:
        return logical_cache(
            self.shape.cached_layers,
            context_len=context_len,
            key=self.cache_type,
            value=self.cache_type,
            encoder_len=self.shape.encoder_len,
        )

    def _kv(
        self, logical: LogicalCache, devices: list[DeviceMemory], per_request: int, num_sequences: int
    ) -> KvCache:
        num_blocks = per_request * replica_sequences(self.request, num_sequences) + 1
        replicas = self.request.data_parallel
        return KvCache(
            bytes_per_token=logical.token_bytes,
            windows=logical.windows,
            bytes_per_token_beyond=logical.beyond_bytes,
            logical_bytes=logical.kv_bytes * num_sequences,
            reserved_bytes=cache_bytes(devices),
            state_bytes_per_sequence=self.sequence_state_bytes,
            block_size=self.block_size,
            num_blocks=num_blocks,
            max_concurrency=replicas * num_blocks / per_request if per_request else None,
        )


def findings(shape: ModelShape, request: PlanRequest, machine: Machine) -> list[Finding]:
    """What vLLM would refuse at start (a layout for another width, memory that is not free), and what its
    ranks do not gain."""
    found = [*cut_findings(shape, request)]
    kind, _ = types_of(shape, request, machine)
    widths = {group.head_dim_k for group in shape.layers if group.kind == "latent"}
    if kind.name.endswith("_ds_mla") and widths != {kind.block_len}:
        found.append(
            Finding(
                "cache_type_misaligned",
                "error",
                f"{kind.name} stores latent rows of {kind.block_len} values, which this model has not",
                {"flag": "--cache-type", "value": kind.name, "widths": sorted(w or 0 for w in widths)},
            )
        )
    if (
        device_of(request, machine, default="gpu") == "gpu"
        and machine.memory_bytes
        and machine.free_bytes is not None
    ):
        found += _not_free(machine.memory_bytes, machine.free_bytes)
    return found


def requested_bytes(total_bytes: int, percent: int = UTILIZATION_PERCENT) -> int:
    """What a server asks for: a share of the whole device, rounded up, whatever is free of it."""
    return -(-total_bytes * percent // 100)


def _not_free(total: int, free: int) -> list[Finding]:
    requested = requested_bytes(total)
    if requested <= free:
        return []
    percent = free * 100 // total
    return [
        Finding(
            "memory_in_use",
            "error",
            f"vLLM takes {UTILIZATION_PERCENT} % of {format_bytes(total)}, {format_bytes(requested)}, but "
            f"{format_bytes(free)} are free: --gpu-memory-utilization {percent / 100:.2f} at most, or "
            "--kv-cache-memory-bytes",
            {"requested_bytes": requested, "free_bytes": free, "max_percent": percent},
        )
    ]
