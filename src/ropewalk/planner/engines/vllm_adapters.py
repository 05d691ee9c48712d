"""Room for adapters: the stacked pairs of matrices that vLLM makes before any adapter is loaded.

``create_lora_weights`` of lora/layers/ in 0.32: every linear layer has, for each adapter that may work at
once, ``rank`` rows as wide as its input and ``rank`` columns as long as its output. Layers that are cut by
their output keep the first whole on each rank, those cut by their input the second; experts have a pair each.
"""

from __future__ import annotations

from ropewalk.inspector.layer_kinds import LayerGroup
from ropewalk.planner.parallel import heads_per_rank
from ropewalk.planner.records import MemoryTerm, PlanRequest
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import estimate, exact

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # config/lora.py:22
# Whose classes name their tables as modules for adapters too (``embedding_modules``, models/ of 0.32).
_WITH_TABLES = frozenset({
    "llama", "qwen3", "qwen3_moe", "mixtral", "granite", "granitemoe", "granitemoeshared", "nemotron",
    "nemotron_h", "jamba", "phimoe", "exaone",
})  # fmt: skip
LARGEST_VOCABULARY = 258_048  # lora/layers/logits_processor.py:91


def adapters_refusal(shape: ModelShape, request: PlanRequest) -> str | None:
    """Why vLLM takes no adapters here, in its words; None where it does."""
    if request.max_lora_rank not in RANKS:
        return f"max_lora_rank ({request.max_lora_rank}) must be one of {', '.join(map(str, RANKS))}"
    if shape.model_type in _WITH_TABLES and shape.vocab_size > LARGEST_VOCABULARY:
        return f"When using LoRA, vocab size must be <= {LARGEST_VOCABULARY}, not {shape.vocab_size}"
    return None


def adapters(
    shape: ModelShape, request: PlanRequest, stage: tuple[int, int], *, dtype_bytes: int, last: bool
) -> MemoryTerm:
    """The matrices of one rank of a stage; a range where it is not known whether tables have them too."""
    numbers = sum(
        _mixer(shape, group, request.tensor_parallel)
        * sum(stage[0] <= index < stage[1] for index in group.indices)
        for group in shape.layers
    )
    numbers += (stage[1] - stage[0]) * _feed_forward(shape, request.tensor_parallel)
    each = request.lora * request.max_lora_rank * dtype_bytes
    tables = shape.vocab_size + shape.hidden_size
    both = tables * ((stage[0] == 0) + last) * each
    size = numbers * each
    source = f"{request.lora} adapters of rank {request.max_lora_rank}"
    if shape.model_type in _WITH_TABLES:
        return exact("adapters", size + both, source, basis="engine_rule")
    return estimate("adapters", size, size, size + both, source)


def _pair(width: int, outputs: list[int], *, ranks: int, by_input: bool = False) -> int:
    """Numbers per adapter and unit of rank of one layer with several ``outputs``."""
    if by_input:
        return -(-width // ranks) + sum(outputs)
    return len(outputs) * width + sum(-(-size // ranks) for size in outputs)


def _mixer(shape: ModelShape, group: LayerGroup, ranks: int) -> int:
    hidden = shape.hidden_size
    if group.kind == "none":
        return 0
    if group.kind == "recurrent":
        channels = max((max(tensor.shape) for tensor in group.state), default=hidden)
        return _pair(hidden, [2 * channels], ranks=ranks) + _pair(
            channels, [hidden], ranks=ranks, by_input=True
        )
    heads = group.num_attention_heads or shape.num_attention_heads
    if group.kind == "latent":
        keys, values, latent = shape.latent_key_dim, shape.latent_value_dim, shape.kv_lora_rank
        query = shape.q_lora_rank
        reads = _pair(hidden, [query, latent + shape.latent_rotary_dim] if query else [latent], ranks=1)
        spread = _pair(query or hidden, [heads * keys], ranks=ranks)
        unfolded = _pair(latent, [heads * (keys - shape.latent_rotary_dim + values)], ranks=ranks)
        return reads + spread + unfolded + _pair(heads * values, [hidden], ranks=ranks, by_input=True)
    query, value = heads * (group.head_dim_k or 0), heads * (group.head_dim_v or 0)
    kept = heads_per_rank(group.num_key_value_heads or 1, ranks) * ranks  # repeated heads are kept whole
    outputs = [query, kept * (group.head_dim_k or 0), kept * (group.head_dim_v or 0)]
    return _pair(hidden, outputs, ranks=ranks) + _pair(value, [hidden], ranks=ranks, by_input=True)


def _feed_forward(shape: ModelShape, ranks: int) -> int:
    """Of one block: the feed-forward, or shared expert, router and routed experts."""
    hidden, gates = shape.hidden_size, 2 if shape.gated else 1

    def block(inner: int) -> int:
        wide = _pair(hidden, [inner] * gates, ranks=ranks)
        return wide + _pair(inner, [hidden], ranks=ranks, by_input=True) if inner else 0

    if not shape.num_experts:
        return block(shape.intermediate_size)
    router = _pair(hidden, [shape.num_experts], ranks=1)
    return block(shape.shared_expert_len) + router + shape.num_experts * block(shape.expert_len)
