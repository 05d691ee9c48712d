"""Stored weights by pipeline stage and tensor-parallel rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ropewalk.findings import Finding
from ropewalk.inspector.derive.parameters import is_routed_expert
from ropewalk.inspector.derive.roles import role_of
from ropewalk.inspector.records import BlockTensor
from ropewalk.planner.parallel import heads_per_rank
from ropewalk.planner.records import Basis, MemoryTerm
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import estimate, exact
from ropewalk.planner.untold import UNTOLD_TYPES

# Matrices that every rank holds whole (vLLM 0.32): routers, down-projections of latent attention, indexers.
_REPLICATED = frozenset({"router", "q_a", "kv_a"})
# A bare config does not tell which blocks have no experts, which matrices stay unquantised, or whether a
# feed-forward is gated: of ten published models six come out within 3 %, gpt-oss-20b at 89 %, an MLX
# conversion (embedding quantised too) at 122 %, Nemotron 3 at 147 % and Llama 4 Maverick at 194 %.
_ESTIMATED, _WITH_EXPERTS = (80, 120), (50, 120)
# Of the 211 types that were held against transformers the worst come to 29 % and to 284 % of what they take.
_UNTOLD = (25, 400)
# Of these the dimensions tell all: within 3 % of the models that transformers 5.24 builds, or of what vLLM
# printed (Qwen3, gpt-oss, Kimi-VL), whatever the size. Quantised ones by methods of which rows were seen.
_COUNTED = (97, 103)
_COUNTED_TYPES = frozenset({
    "bloom", "codegen", "cohere", "cohere2", "deepseek_v2", "deepseek_v3", "ernie4_5", "exaone", "exaone4",
    "gemma", "gemma2", "gemma3", "glm4", "glm4_moe", "glm_moe_dsa", "gpt_bigcode", "gpt_neo", "gpt_neox",
    "gpt_oss", "granite", "granitemoe", "helium", "hyperclovax", "kimi_k25", "kimi_vl", "llama",
    "llava_next", "minicpm3", "minimax_m2", "ministral3", "mistral", "mistral4", "mixtral", "mpt", "olmo",
    "olmo2", "olmo3", "olmoe", "persimmon", "phi", "phi-msft", "phi3", "qwen2", "qwen2_moe", "qwen3",
    "qwen3_moe", "seed_oss", "smollm3", "stablelm", "starcoder2",
})  # fmt: skip
_COUNTED_METHODS = frozenset({None, "fp8", "compressed-tensors", "gptq", "awq", "mxfp4"})


def is_counted(model_type: str, method: str | None) -> bool:
    """Whether a bare config of this type, quantised by ``method``, tells its weights within 3 %."""
    return model_type in _COUNTED_TYPES and method in _COUNTED_METHODS


def weights_term(shape: ModelShape, size: int, *, source: str, basis: Basis = "exact") -> MemoryTerm:
    """The term of so many bytes of weights: exact from tensors, a range from a bare config."""
    if shape.has_tensors and shape.is_sound:
        return exact("weights", size, source, basis=basis)
    if shape.has_tensors:
        return _of_a_broken_checkpoint(shape, size)
    percents = _COUNTED if shape.counted else _WITH_EXPERTS if shape.num_experts else _ESTIMATED
    low, high = (size * percent // 100 for percent in (_UNTOLD if _is_untold(shape) else percents))
    return estimate("weights", size, low, high, "dimensions of the config, no tensor read")


def weights_findings(shape: ModelShape) -> Iterator[Finding]:
    """What is told where a bare config does not tell what the weights take."""
    if shape.has_tensors or not _is_untold(shape):
        return
    message = (
        f"what the weights of a {shape.model_type} take does not follow from its config alone: a guess "
        "with a wide range; plan the checkpoint itself"
    )
    yield Finding("weights_not_told", "warning", message, {"model_type": shape.model_type})


def _is_untold(shape: ModelShape) -> bool:
    return shape.model_type in UNTOLD_TYPES


def _of_a_broken_checkpoint(shape: ModelShape, size: int) -> MemoryTerm:
    """What was counted is the least; where tensors are missing the whole is about ``expected_bytes``."""
    total = shape.weights.total
    whole = size * max(shape.expected_bytes, total) // total if total else size
    high = whole * _ESTIMATED[1] // 100 if shape.expected_bytes else whole
    return estimate("weights", whole, size, high, "headers of a checkpoint with errors, see the findings")


@dataclass(frozen=True, slots=True)
class StageWeights:
    """Bytes of one pipeline stage: ``rest`` is what each tensor-parallel rank holds beside routed experts,
    ``experts`` all routed experts of the stage."""

    rest: int
    experts: int

    def on_rank(self, part: int, whole: int) -> int:
        """Bytes on a rank that holds ``part`` of ``whole`` of the experts."""
        return self.rest + self.experts * part // whole


def stage_weights(
    shape: ModelShape, stages: Sequence[tuple[int, int]], tensor_parallel: int
) -> tuple[StageWeights, ...]:
    """The weights of each stage.

    The embedding is on the first stage, and on the last as well where it serves as head; the final norm
    and the head are on the last (vLLM 0.32, models/llama.py:377-400, 500-512). Towers and MTP layers are
    terms of their own.
    """
    weights = shape.weights
    held, whole = _rank_share(shape, tensor_parallel)
    table = weights.embedding // tensor_parallel
    head = weights.output_head // tensor_parallel or table
    experts = [sum(weights.experts[first:last]) for first, last in stages]
    sizes = [
        (sum(weights.layers[first:last]) - routed) * held // whole
        for (first, last), routed in zip(stages, experts, strict=True)
    ]
    sizes[0] += table
    sizes[-1] += weights.other
    if weights.output_head or len(stages) > 1:
        sizes[-1] += head
    return tuple(map(StageWeights, sizes, experts))


def _rank_share(shape: ModelShape, tensor_parallel: int) -> tuple[int, int]:
    """Parameters of the typical block beside routed experts that one rank holds, and all of them."""
    if tensor_parallel == 1 or shape.block is None:
        return 1, tensor_parallel
    tensors = [tensor for tensor in shape.block.tensors if not is_routed_expert(tensor.name, tensor.shape)]
    held = sum(_held(shape, tensor, tensor_parallel) for tensor in tensors)
    return held, sum(tensor.parameters for tensor in tensors) or tensor_parallel


def _held(shape: ModelShape, tensor: BlockTensor, tensor_parallel: int) -> int:
    """One rank's part of a tensor: KV heads repeat once there are more ranks than heads."""
    role = role_of(tensor.name) or ""
    if len(tensor.shape) < 2 or role in _REPLICATED or role.startswith("indexer_"):
        return tensor.parameters
    heads = max((group.num_key_value_heads or 0 for group in shape.layers), default=0)
    if heads and role in ("k", "v"):
        return tensor.parameters * heads_per_rank(heads, tensor_parallel) // heads
    if heads and role == "qkv":
        queries = shape.num_attention_heads
        kept = queries // tensor_parallel + 2 * heads_per_rank(heads, tensor_parallel)
        return tensor.parameters * kept // (queries + 2 * heads)
    return tensor.parameters // tensor_parallel
