"""How vLLM holds a model: shards and stages, one pool of blocks per rank, what it profiles beside it.

Rules of vLLM 0.32 (November 2026) unless a line says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ropewalk.findings import Finding, Severity
from ropewalk.inspector.layer_kinds import LayerGroup
from ropewalk.planner.engines import vllm_versions as versions
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.engines.vllm_buckets import Paging, block_size, buckets_of, state_bytes
from ropewalk.planner.engines.vllm_capacity import StartPool, start_pool, start_refusal
from ropewalk.planner.engines.vllm_memory import VllmRanks, pool_stages_of
from ropewalk.planner.engines.vllm_partitions import alternatives as alternatives
from ropewalk.planner.engines.vllm_partitions import cut_findings
from ropewalk.planner.engines.vllm_partitions import traffic as traffic
from ropewalk.planner.engines.vllm_pool import make_pool
from ropewalk.planner.engines.vllm_ranks import check_ranks, kinds_of
from ropewalk.planner.engines.vllm_settings import (
    batched_tokens,
    budgets_of,
    check_block,
    check_settings,
    dtype_bytes_of,
    requested_bytes,
    running_sequences,
    state_dtype_bytes,
    utilization,
)
from ropewalk.planner.engines.vllm_settings import types_of as types_of
from ropewalk.planner.engines.vllm_settings import usable_bytes as usable_bytes
from ropewalk.planner.engines.vllm_sparse import index_row_bytes
from ropewalk.planner.engines.vllm_speculation import Speculation, overlaps, runner_for, speculation_of
from ropewalk.planner.engines.vllm_stops import stops
from ropewalk.planner.engines.vllm_weights import host_memory, weight_terms
from ropewalk.planner.layers_cache import LogicalCache, logical_cache
from ropewalk.planner.machine import DeviceKind, Machine, MemoryKind, device_of
from ropewalk.planner.parallel import check_options, pipeline_stages, replica_sequences
from ropewalk.planner.records import KvCache, PlanRequest
from ropewalk.planner.roofline import Attained
from ropewalk.planner.rope.versions import has
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import DeviceMemory, MemoryEstimate, cache_bytes, with_places
from ropewalk.planner.weights import stage_weights
from ropewalk.units import format_bytes

FIT_TYPES = ("auto", "fp8")

# One request at a time: Qwen3 in bf16 on an H20 by SGLang (whose kernels and graphs are alike), prompts of 1
# to 129,042 tokens, and vLLM on an RTX 4090 (docs/speeds.json).
_ROWS = "what published rows of servers with CUDA graphs reach of the card's figures, docs/exactness.md"
_REACHED = Attained((0.33, 0.92), (70e-6, 10e-6), (0.35, 0.9), _ROWS)
ATTAINED: Mapping[MemoryKind, Attained] = {"gddr": _REACHED, "hbm": _REACHED}
MAX_SEQUENCES = None
_OPTIONS = frozenset({
    "data_parallel", "expert_parallel", "decode_context_parallel", "nodes", "node_memory_bytes",
    "layer_partition", "block_size", "fit", "gpu_memory_utilization", "max_num_seqs", "enforce_eager",
    "kv_cache_memory_bytes", "dtype", "quantization", "prefix_caching", "language_model_only",
    "speculative", "mamba_cache_mode", "mamba_ssm_cache_dtype", "cpu_offload_bytes", "kv_offloading_bytes",
    "lora",
})  # fmt: skip
_ONLINE = frozenset(
    {"fp8", "fp8_per_tensor", "fp8_per_block"}
)  # quantised while loading, quantization/fp8.py


def memory_model(case: PlanningCase) -> VllmMemoryModel:
    """Work out the pool and the ranks. Raises :class:`UsageError` where vLLM would refuse the ranks."""
    shape, request, machine = case.shape, case.request, case.machine
    check_options(request, _OPTIONS)
    check_settings(request)
    check_ranks(shape, request)
    device = device_of(request, machine, default="gpu")
    check_block(request, device)
    key, _ = types_of(case)
    spec = speculation_of(request)
    # Chunked layers beside a draft that reads hidden states (config/vllm.py:2150 of 0.32).
    chunked = any(group.kind == "chunked" for group in shape.layers)
    paging = Paging(
        device=device,
        tensor_parallel=request.tensor_parallel,
        cache_type=key,
        dtype_bytes=dtype_bytes_of(shape, request),
        state_dtype_bytes=state_dtype_bytes(shape, request, device),
        context_parallel=request.decode_context_parallel,
        block_size=request.block_size,
        context_len=request.context_len,
        drafted=spec.tokens if spec else 0,
        state_mode=versions.state_mode(
            shape,
            request.engine_version,
            caches=versions.caches_prefixes(shape, request.engine_version, request.prefix_caching),
            asked=request.mamba_cache_mode,
        ),
        checkpoints=has(versions.PREFILL_CHECKPOINTS, request.engine_version),
    )
    stages = pipeline_stages(shape.num_layers, request.pipeline_parallel, partition=request.layer_partition)
    states = [group for group in shape.layers if group.state]
    kinds = kinds_of(shape, request, budgets_of(request, machine))
    alike = tuple(dict.fromkeys(kinds))
    loaded = stage_weights(_loaded(shape, request), stages, request.tensor_parallel)
    return VllmMemoryModel(
        shape=shape,
        request=request,
        machine=machine,
        device=device,
        cache_type=key,
        stages=stages,
        block_size=block_size(shape, paging),
        # Only VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE=0 prices chunks as full attention.
        pool=make_pool(buckets_of(shape, paging), hybrid=not (chunked and spec and spec.reads_hidden_states)),
        pool_stages=pool_stages_of(shape, stages),
        weights={
            kind: weight_terms(shape, request, kind, loaded, stages=stages, spec=spec, table=device == "gpu")
            for kind in alike
        },
        kinds=kinds,
        alike=alike,
        sequence_state_bytes=_sequence_state_bytes(states, paging),
        steps_at_once=_steps_at_once(shape, device, len(stages), request.engine_version, spec),
        speculation=spec,
        host=host_memory(shape, request, kinds, loaded, on_gpu=device == "gpu"),
    )


def _sequence_state_bytes(states: list[LayerGroup], paging: Paging) -> int:
    """States of one sequence, of all ranks together."""
    if not states:
        return 0
    whole = replace(paging, tensor_parallel=1)
    return sum(state_bytes(group, whole) * group.count for group in states)


def _steps_at_once(
    shape: ModelShape, device: DeviceKind, stages: int, version: str | None, spec: Speculation | None
) -> int:
    """``max_concurrent_batches`` (config/vllm.py:512 of 0.26): as many as there are stages; with asynchronous
    scheduling, which a CPU has not, one more. The first model runner has it on one stage alone."""
    if not has(versions.IN_FLIGHT_STEPS, version):
        return 1
    alone = stages == 1 or runner_for(shape, spec, version) != "v1"
    return stages + (device == "gpu" and alone and overlaps(spec, version))


def _loaded(shape: ModelShape, request: PlanRequest) -> ModelShape:
    """The model with the blocks' matrices in 8 bits where ``--quantization`` quantises while it loads; tables
    stay as they are. What is stored packed stays packed."""
    if request.quantization not in _ONLINE or shape.quantised:
        return shape
    weights, width = shape.weights, shape.dtype_bytes
    layers = tuple(size // width for size in weights.layers)
    experts = tuple(size // width for size in weights.experts)
    return replace(shape, weights=replace(weights, layers=layers, experts=experts))


@dataclass(frozen=True, slots=True)
class VllmMemoryModel(VllmRanks):
    """The memory of all ranks as a function of length and number of sequences."""

    @property
    def step(self) -> int:
        """Tokens come in whole blocks."""
        return self.block_size

    def estimate_memory(self, context_len: int, num_sequences: int) -> MemoryEstimate:
        """The pool holds every sequence's blocks and the one block that vLLM never hands out."""
        step = self.step_of(context_len, num_sequences)
        terms = {kind: self.terms_of(kind, step) for kind in self.alike}
        devices = [
            DeviceMemory(f"{self.device}:{rank}", self.stages[kind.stage], terms[kind], kind.usable_bytes)
            for rank, kind in enumerate(self.kinds)
        ]
        if len(devices) > 1:
            devices = with_places(devices, self.with_blocks(terms))
        devices += self.host
        logical = self._logical(context_len)
        kv = self._kv(logical, devices, sum(step.blocks), num_sequences)
        return MemoryEstimate(
            tuple(devices),
            with_pool(kv, start_pool(self, context_len, num_sequences)),
            logical.terms(num_sequences, state_bytes=self.sequence_state_bytes),
        )

    def shortfall_bytes(self, context_len: int, num_sequences: int) -> int:
        """:attr:`MemoryEstimate.shortfall_bytes` of :meth:`estimate_memory`, from one rank of each kind."""
        step = self.step_of(context_len, num_sequences)
        return max(
            sum(term.high_bytes for term in self.terms_of(kind, step)) - kind.usable_bytes
            for kind in self.alike
            if kind.usable_bytes is not None
        )

    def _logical(self, context_len: int) -> LogicalCache:
        return logical_cache(
            self.shape.cached_layers,
            context_len=context_len,
            key=self.cache_type,
            value=self.cache_type,
            encoder_len=self.shape.encoder_len,
            index_row=index_row_bytes,
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


def findings(case: PlanningCase) -> list[Finding]:
    """What vLLM would refuse at start (a layout for another width, memory that is not free), and what its
    ranks do not gain."""
    shape, request, machine = case.shape, case.request, case.machine
    found = [*cut_findings(shape, request)]
    kind, _ = types_of(case)
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
    return [*found, *_options_refused(case), *_refused(shape, request, machine)]


def _options_refused(case: PlanningCase) -> Iterator[Finding]:
    """What vLLM stops at before it measures anything: a batch too small for an item, drafting, adapters."""
    shape, request, machine = case.shape, case.request, case.machine
    if device_of(request, machine, default="gpu") == "cpu":
        return
    batched = batched_tokens(request, machine, shape=shape)
    running = running_sequences(request, request.num_sequences)
    for stop in stops(shape, request, batched=batched, running=running):
        yield Finding(stop.code, "error", f"vLLM stops: {stop.message}", {"flag": stop.flag, **stop.where})


def _refused(shape: ModelShape, request: PlanRequest, machine: Machine) -> Iterator[Finding]:
    """A pool whose size is given and too small, and more sequences than it has blocks for states."""
    if request.kv_cache_memory_bytes is None and request.max_num_seqs is None:
        return
    chosen = memory_model(PlanningCase(shape, request, machine))
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
