"""What a rank of vLLM loads: weights, towers, the table of positions, a draft, room for adapters.

Rules of vLLM 0.32 (November 2026) unless a line says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ropewalk.planner.engines.vllm_adapters import adapters
from ropewalk.planner.engines.vllm_ranks import RankKind
from ropewalk.planner.engines.vllm_settings import dtype_bytes_of
from ropewalk.planner.engines.vllm_speculation import Speculation
from ropewalk.planner.parallel import world_size
from ropewalk.planner.records import Basis, MemoryTerm, PlanRequest
from ropewalk.planner.shape import Draft, ModelShape
from ropewalk.planner.terms import DeviceMemory, estimate, exact
from ropewalk.planner.weights import StageWeights, weights_term

Stages = tuple[tuple[int, int], ...]


def weight_terms(
    shape: ModelShape,
    request: PlanRequest,
    kind: RankKind,
    loaded: tuple[StageWeights, ...],
    *,
    stages: Stages,
    spec: Speculation | None,
    table: bool,
) -> tuple[MemoryTerm, ...]:
    """What a rank of this kind loads of the ``loaded`` stages, with the ``table`` of positions where each
    rank keeps one; ``spec`` says how the draft works."""
    ranks, width = request.tensor_parallel, dtype_bytes_of(shape, request)
    last = kind.stage == len(stages) - 1
    size = max(_rank_bytes(shape, request, kind, loaded) - request.cpu_offload_bytes, 0)
    basis: Basis = "engine_rule" if world_size(request) > 1 else "exact"
    held = weights_term(shape, size, source="sum of the tensors", basis=basis)
    terms = [_padded(shape, request, kind, loaded, held)]
    if shape.projector_bytes and kind.stage == 0 and not request.language_model_only:
        terms.append(_projector(shape, ranks))
    if shape.rope_numbers and table:
        source = "cosines and sines of every position, on each rank"
        terms.append(exact("rope_table", shape.rope_numbers * width, source, basis="engine_rule"))
    if shape.draft and last:
        shares = spec is not None and spec.reads_hidden_states and len(stages) == 1
        terms.append(_draft_term(shape.draft, ranks, shares=shares))
    if request.lora:
        terms.append(adapters(shape, request, stages[kind.stage], dtype_bytes=width, last=last))
    return tuple(terms)


def host_memory(
    shape: ModelShape,
    request: PlanRequest,
    kinds: Sequence[RankKind],
    loaded: tuple[StageWeights, ...],
    *,
    on_gpu: bool,
) -> tuple[DeviceMemory, ...]:
    """Host memory of all ranks: weights that stay there, blocks that leave the devices (pinned at once,
    v1/kv_offload/cpu/spec.py of 0.32)."""
    terms = []
    if request.cpu_offload_bytes and on_gpu:
        most = request.cpu_offload_bytes
        size = sum(min(most, _rank_bytes(shape, request, kind, loaded)) for kind in kinds)
        terms.append(exact("weights", size, "weights that stay in host memory", basis="engine_rule"))
    if request.kv_offloading_bytes:
        size = request.kv_offloading_bytes
        terms.append(exact("kv_offload", size, "blocks in host memory, as given", basis="engine_rule"))
    return (DeviceMemory("cpu", (0, 0), tuple(terms)),) if terms else ()


def _rank_bytes(
    shape: ModelShape, request: PlanRequest, kind: RankKind, loaded: tuple[StageWeights, ...]
) -> int:
    """Weights of a rank in the number type that it computes in."""
    held = _weight_bytes(shape, request, kind, loaded[kind.stage])
    return held * dtype_bytes_of(shape, request) // shape.dtype_bytes


def _weight_bytes(shape: ModelShape, request: PlanRequest, kind: RankKind, stage: StageWeights) -> int:
    """Experts whole, or a slice of each on the shards of all replicas (fused_moe/config.py:1185)."""
    if kind.experts is not None:
        return stage.on_rank(kind.experts, shape.num_experts)
    return stage.on_rank(1, request.tensor_parallel * request.data_parallel)


def _projector(shape: ModelShape, ranks: int) -> MemoryTerm:
    """The towers: exact from their tensors, within a twentieth from what a config describes."""
    size = shape.projector_bytes // ranks
    if shape.has_tensors:
        return exact("projector", size, "sum of the tensors")
    return estimate("projector", size, size * 19 // 20, size * 21 // 20, "dimensions of the config")


def _padded(
    shape: ModelShape,
    request: PlanRequest,
    kind: RankKind,
    loaded: tuple[StageWeights, ...],
    term: MemoryTerm,
) -> MemoryTerm:
    """Experts in MXFP4 are padded to what the kernel takes: 128 x 256 values by Marlin (seen on an H100),
    256 x 256 by TRT-LLM, nothing by others (fused_moe/oracle/mxfp4.py:376 of 0.19)."""
    if not shape.packs_experts_only:
        return term
    ranks = 1 if kind.experts is not None else request.tensor_parallel
    inner, hidden = -(-shape.expert_len // ranks), shape.hidden_size
    routed = _weight_bytes(shape, request, kind, loaded[kind.stage]) - loaded[kind.stage].rest

    def more(unit: int) -> int:
        padded = (-(-inner // unit) * unit) * (-(-hidden // 256) * 256)
        return routed * padded // (inner * hidden) - routed

    source = f"{term.source}; experts padded for their kernel"
    return estimate(term.name, term.bytes + more(128), term.low_bytes, term.high_bytes + more(256), source)


def _draft_term(draft: Draft, ranks: int, *, shares: bool) -> MemoryTerm:
    """The draft's weights on one rank. Where it reads hidden states it ``shares`` table and head with the
    target if it has none of its own or the same; with stages its table is loaded on its own."""
    size, source = draft.weights_bytes // ranks, "sum of the tensors; its cache is in the pool"
    if draft.model is None:
        return exact("draft_model", size, source)
    likely = size - (draft.shared_bytes // ranks if shares else 0)
    least, most = (weights_term(draft.model, count, source=source) for count in (likely, size))
    return replace(
        estimate("draft_model", likely, least.low_bytes, most.high_bytes, least.source),
        basis="estimate" if least.low_bytes < most.high_bytes else "exact",
    )
