"""How vLLM holds a model: shards and stages, one pool of blocks per rank, what it profiles beside it.

Rules of vLLM 0.32 (November 2026) unless a line says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from ropewalk.errors import UsageError
from ropewalk.findings import Finding, Severity
from ropewalk.planner.caches import CacheType, cache_types, find_cache_type
from ropewalk.planner.engines import vllm_versions as versions
from ropewalk.planner.engines.vllm_buckets import BLOCK_UNIT, Paging, block_size, buckets_of, state_bytes
from ropewalk.planner.engines.vllm_capacity import StartPool, start_pool, start_refusal
from ropewalk.planner.engines.vllm_estimates import (
    Profile,
    activations,
    cpu_activations,
    graphs,
    latent_workspace,
    non_torch,
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
from ropewalk.planner.rope.versions import has
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import (
    CACHES,
    DeviceMemory,
    MemoryEstimate,
    cache_bytes,
    estimate,
    exact,
    with_places,
)
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
    "layer_partition", "block_size", "fit", "gpu_memory_utilization", "max_num_seqs", "enforce_eager",
    "kv_cache_memory_bytes", "dtype", "quantization", "prefix_caching", "language_model_only",
})  # fmt: skip

# Default --max-num-batched-tokens and --max-num-seqs of a server by device memory (not for A100s), engine/
# arg_utils.py:2898-2960 of 0.32.
_BATCH_DEFAULTS = ((160 * GIB, 16384, 1024), (70 * GIB, 8192, 1024), (0, 2048, 256))
_CPU_SEQUENCES = 128
_ONLINE = frozenset(
    {"fp8", "fp8_per_tensor", "fp8_per_block"}
)  # quantised while loading, quantization/fp8.py
DRAFT_TOKENS = 4  # proposed per step by a model of its own: what vLLM's examples start from
_DTYPES = {"float": 4, "float32": 4, "half": 2, "float16": 2, "bfloat16": 2}
_CPU_BATCHED_TOKENS = 2048
UTILIZATION_PERCENT = 92  # from 0.20 on, config/cache.py:102


def types_of(shape: ModelShape, request: PlanRequest, machine: Machine) -> tuple[CacheType, CacheType]:
    """The one cache type, twice; ``auto`` is the model's dtype. Raises :class:`UsageError`."""
    if request.cache_type_k != request.cache_type_v:
        raise UsageError(
            f"vLLM keeps keys and values in one type, not {request.cache_type_k} and {request.cache_type_v}",
            where={"flag": "--cache-type", "k": request.cache_type_k, "v": request.cache_type_v},
        )
    if request.cache_type_k == "auto":
        kind = CacheType("auto", 1, _dtype_bytes(shape, request))
    else:
        table = CPU_TYPES if device_of(request, machine, default="gpu") == "cpu" else GPU_TYPES
        kind = find_cache_type(table, request.cache_type_k, engine="vLLM")
    return kind, kind


def _dtype_bytes(shape: ModelShape, request: PlanRequest) -> int:
    """As asked; ``auto`` loads float32 in 16 bits (config/model.py, _resolve_auto_dtype)."""
    return _DTYPES.get(request.dtype, min(shape.dtype_bytes, 2))


def usable_bytes(request: PlanRequest, machine: Machine) -> int | None:
    """On a GPU the default utilisation of the budget; on the CPU all of it, as bytes are given there."""
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
        default, _ = batch_defaults(request, machine)
    sequences = running_sequences(request, num_sequences or request.num_sequences)
    return min(default, sequences * (context_len or request.context_len))


def batch_defaults(request: PlanRequest, machine: Machine) -> tuple[int, int]:
    """Batched tokens and sequences of a GPU's server that is told neither."""
    memory = machine.memory_bytes or request.memory_bytes or 0
    if "A100" in (machine.name or "").upper():
        memory = 0
    return next((tokens, count) for floor, tokens, count in _BATCH_DEFAULTS if memory >= floor)


def running_sequences(request: PlanRequest, num_sequences: int) -> int:
    """``--max-num-seqs`` of one replica: as asked, else as many as are held."""
    return request.max_num_seqs or replica_sequences(request, num_sequences)


def drafted_tokens(request: PlanRequest) -> int:
    """Tokens that are proposed per step."""
    return request.mtp or (DRAFT_TOKENS if request.draft else 0)


def memory_model(shape: ModelShape, request: PlanRequest, machine: Machine) -> VllmMemoryModel:
    """Work out the pool and the ranks. Raises :class:`UsageError` where vLLM would refuse the ranks."""
    check_options(request, _OPTIONS)
    _check_settings(request)
    check_ranks(shape, request)
    device = device_of(request, machine, default="gpu")
    _check_block(request, device)
    key, _ = types_of(shape, request, machine)
    paging = Paging(
        device=device,
        tensor_parallel=request.tensor_parallel,
        cache_type=key,
        dtype_bytes=_dtype_bytes(shape, request),
        # Processors with AVX-512 for bfloat16 keep states in float32 (platforms/cpu.py:303 of 0.32).
        state_dtype_bytes=4 if device == "cpu" else shape.state_dtype_bytes,
        context_parallel=request.decode_context_parallel,
        block_size=request.block_size,
        context_len=request.context_len,
        drafted=drafted_tokens(request),
        prefix_caching=versions.caches_prefixes(shape, request.engine_version, request.prefix_caching),
        checkpoints=has(versions.PREFILL_CHECKPOINTS, request.engine_version),
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
        # Only VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE=0 prices chunks as full attention.
        pool=make_pool(buckets_of(shape, paging)),
        weights=stage_weights(_loaded(shape, request), stages, request.tensor_parallel),
        kinds=kinds,
        alike=tuple(dict.fromkeys(kinds)),
        sequence_state_bytes=sum(state_bytes(group, whole) * group.count for group in states),
    )


def _projector(shape: ModelShape, ranks: int) -> MemoryTerm:
    """The towers: exact from their tensors, within a twentieth from what a config describes."""
    size = shape.projector_bytes // ranks
    if shape.has_tensors:
        return exact("projector", size, "sum of the tensors")
    return estimate("projector", size, size * 19 // 20, size * 21 // 20, "dimensions of the config")


def _check_settings(request: PlanRequest) -> None:
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


def _loaded(shape: ModelShape, request: PlanRequest) -> ModelShape:
    """The model with the blocks' matrices in 8 bits where ``--quantization`` quantises while it loads; tables
    stay as they are. What is stored packed stays packed."""
    if request.quantization not in _ONLINE or shape.quantised:
        return shape
    weights, width = shape.weights, shape.dtype_bytes
    layers = tuple(size // width for size in weights.layers)
    experts = tuple(size // width for size in weights.experts)
    return replace(shape, weights=replace(weights, layers=layers, experts=experts))


def _check_block(request: PlanRequest, device: DeviceKind) -> None:
    size, unit = request.block_size, BLOCK_UNIT[device]
    if size is not None and size % unit:
        raise UsageError(
            f"blocks of {size} tokens: attention on a {device.upper()} takes multiples of {unit}",
            where={"flag": "--block-size", "value": size, "unit": unit},
        )


@dataclass(frozen=True, slots=True)
class _Step:
    """What a length and a number of sequences come to: blocks of each group for one replica, tokens of one
    step, and the workspace of latent attention."""

    blocks: list[int]
    sequences: int
    running: int
    batched: int
    workspace: int


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
        """Tokens scheduled and not yet settled: those of every step that may run at once.

        Latent attention on a CPU prefills whole prompts.
        """
        if self.device == "cpu" and any(group.kind == "latent" for group in self.shape.layers):
            return context_len
        return batched * self._steps_at_once()

    def _steps_at_once(self) -> int:
        """``max_concurrent_batches`` (config/vllm.py:512 of 0.26): as many as there are stages; with
        asynchronous scheduling, which a CPU has not, one more. The first model runner has it on one stage
        alone."""
        stages, version = len(self.stages), self.request.engine_version
        if not has(versions.IN_FLIGHT_STEPS, version):
            return 1
        alone = stages == 1 or versions.runner_of(self.shape, version) != "v1"
        return stages + (self.device == "gpu" and alone)

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
        kv = self._kv(logical, devices, sum(step.blocks), num_sequences)
        return MemoryEstimate(
            tuple(devices),
            with_pool(kv, start_pool(self, context_len, num_sequences)),
            logical.terms(num_sequences, state_bytes=self.sequence_state_bytes),
        )

    def shortfall_bytes(self, context_len: int, num_sequences: int) -> int:
        """:attr:`MemoryEstimate.shortfall_bytes` of :meth:`estimate_memory`, from one rank of each kind."""
        step = self._step(context_len, num_sequences)
        return max(
            sum(term.high_bytes for term in self._terms(kind, step)) - kind.usable_bytes
            for kind in self.alike
            if kind.usable_bytes is not None
        )

    def rank_terms(
        self, context_len: int, num_sequences: int
    ) -> Iterator[tuple[int, int | None, tuple[MemoryTerm, ...]]]:
        """Of each kind of rank its stage, its share of the device's memory (None where that is not known)
        and its terms."""
        step = self._step(context_len, num_sequences)
        for kind in self.alike:
            share = kind.usable_bytes
            if share is None and self.machine.memory_bytes is not None:
                share = requested_bytes(self.machine.memory_bytes, utilization(self.request))
            yield kind.stage, share, self._terms(kind, step)

    def planned_cache_bytes(self, context_len: int, num_sequences: int) -> int:
        """Caches of the rank that holds most: what a plan gives each rank where bytes are given."""
        return max(
            sum(term.bytes for term in terms if term.name in CACHES)
            for _, _, terms in self.rank_terms(context_len, num_sequences)
        )

    def _step(self, context_len: int, num_sequences: int) -> _Step:
        batched = batched_tokens(
            self.request, self.machine, context_len=context_len, num_sequences=num_sequences
        )
        sequences = replica_sequences(self.request, num_sequences)
        blocks = self.pool.group_blocks(context_len, self.in_flight(context_len, batched))
        running = running_sequences(self.request, num_sequences)
        workspace = latent_workspace(
            self.shape, context_len=context_len, num_sequences=running, block_size=self.block_size
        )
        return _Step(blocks, sequences, running, batched, workspace)

    def _terms(self, kind: RankKind, step: _Step) -> tuple[MemoryTerm, ...]:
        """The terms of a rank of this kind."""
        caches = self._caches(self._pool_stage(kind.stage), step.blocks, step.sequences)
        return (*self._weights(kind), *caches, *self._beside(kind, step))

    def _beside(self, kind: RankKind, step: _Step) -> tuple[MemoryTerm, ...]:
        """What a rank holds beside weights and caches."""
        profile = self._profile(kind, step)
        if self.device == "gpu":
            peak = activations(self.shape, profile)
            return peak, graphs(self.shape, profile), non_torch(profile)
        process = process_overhead(
            self.shape,
            self.device,
            serves=kind.serves,
            joins=kind.joins,
            balances=kind.leads and self.request.data_parallel > 1,
        )
        return cpu_activations(self.shape, profile), process

    def _profile(self, kind: RankKind, step: _Step) -> Profile:
        first, last = self.stages[kind.stage]
        return Profile(
            version=self.request.engine_version,
            tokens=step.batched,
            sequences=step.running,
            dtype_bytes=_dtype_bytes(self.shape, self.request),
            tensor_parallel=self.request.tensor_parallel,
            pipeline_parallel=self.request.pipeline_parallel,
            num_layers=last - first,
            samples=kind.stage == len(self.stages) - 1,
            workspace=step.workspace,
            hopper=self.machine.is_hopper,
            multiprocessors=self.machine.multiprocessors,
            eager=self.request.enforce_eager,
            towers=bool(self.shape.projector_bytes) and not self.request.language_model_only,
        )

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
        size = self._weight_bytes(kind) * _dtype_bytes(self.shape, self.request) // self.shape.dtype_bytes
        terms = [weights_term(self.shape, size, source="sum of the tensors", basis=basis)]
        if self.shape.projector_bytes and number == 0 and not self.request.language_model_only:
            terms.append(_projector(self.shape, ranks))
        if self.shape.rope_numbers and self.device == "gpu":
            table = self.shape.rope_numbers * _dtype_bytes(self.shape, self.request)
            source = "cosines and sines of every position, on each rank"
            terms.append(exact("rope_table", table, source, basis="engine_rule"))
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


def with_pool(kv: KvCache, pool: StartPool | None) -> KvCache:
    """The record with the pool that the start takes."""
    if pool is None:
        return kv
    have = pool.available
    return replace(
        kv,
        pool_bytes=have.likely,
        pool_bytes_low=have.low,
        pool_bytes_high=have.high,
        pool_blocks=pool.likely.num_blocks,
        pool_blocks_low=pool.low.num_blocks,
        pool_blocks_high=pool.high.num_blocks,
        pool_tokens=pool.likely.tokens,
        pool_tokens_low=pool.low.tokens,
        pool_tokens_high=pool.high.tokens,
        pool_concurrency=pool.likely.max_concurrency,
        pool_concurrency_low=pool.low.max_concurrency,
        pool_concurrency_high=pool.high.max_concurrency,
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
                f"{kind.name} stores latent rows of {kind.block_len} values, which this model does not have",
                {"flag": "--cache-type", "value": kind.name, "widths": sorted(w or 0 for w in widths)},
            )
        )
    if (
        device_of(request, machine, default="gpu") == "gpu"
        and machine.memory_bytes
        and machine.free_bytes is not None
        and request.kv_cache_memory_bytes is None
    ):
        found += _not_free(machine.memory_bytes, machine.free_bytes, utilization(request))
    return [*found, *_refused(shape, request, machine)]


def _refused(shape: ModelShape, request: PlanRequest, machine: Machine) -> Iterator[Finding]:
    """A pool whose size is given and too small, and more sequences than it has blocks for states."""
    if request.kv_cache_memory_bytes is None and request.max_num_seqs is None:
        return
    chosen = memory_model(shape, request, machine)
    pool = start_pool(chosen, request.context_len, request.num_sequences)
    refusal = start_refusal(chosen, request.context_len, request.num_sequences)
    if refusal is not None and refusal.reason == "sequences":
        severity: Severity = "error" if refusal.certain else "warning"
        fix = f"--max-num-seqs {refusal.figures['num_blocks']}"
        where = {"flag": "--max-num-seqs", "fix": fix, **refusal.figures}
        yield Finding("sequences_above_state_blocks", severity, refusal.message, where)
    held = replica_sequences(request, request.num_sequences)
    if request.kv_cache_memory_bytes is None or pool is None or pool.likely.max_concurrency >= held:
        return
    given = format_bytes(pool.available.likely)
    message = (
        refusal.message
        if refusal is not None
        else f"{given} of cache hold {pool.likely.max_concurrency:.2f} sequences of full length, not {held}"
    )
    figures = refusal.figures if refusal is not None else {"available_bytes": pool.available.likely}
    yield Finding("does_not_fit", "error", message, {"flag": "--kv-cache-memory-bytes", **figures})


def _not_free(total: int, free: int, share: float) -> list[Finding]:
    requested = requested_bytes(total, share)
    if requested <= free:
        return []
    percent = free * 100 // total
    return [
        Finding(
            "memory_in_use",
            "error",
            f"vLLM takes {share * 100:g} % of {format_bytes(total)}, {format_bytes(requested)}, but "
            f"{format_bytes(free)} are free: --gpu-memory-utilization {percent / 100:.2f} at most, or "
            "--kv-cache-memory-bytes",
            {"requested_bytes": requested, "free_bytes": free, "max_percent": percent},
        )
    ]
