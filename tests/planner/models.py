"""Inspections of real models, built by hand from their published dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ropewalk.inspector.layer_kinds import (
    AnyLayer,
    FullAttention,
    LatentAttention,
    Recurrent,
    SlidingWindow,
    StateTensor,
)
from ropewalk.inspector.records import (
    Block,
    BlockTensor,
    CheckpointSummary,
    Fact,
    Format,
    Inspection,
    WeightBytes,
)

Layers = tuple[AnyLayer, ...]


def attention(
    indices: Sequence[int],
    *,
    kv: int,
    dim: int,
    heads: int = 0,
    window: int | None = None,
    value_dim: int = -1,
) -> AnyLayer:
    """Layers of plain attention; with a ``window`` they are sliding."""
    sizes = (tuple(indices), heads or None, kv, dim, dim if value_dim < 0 else value_dim)
    return SlidingWindow(*sizes, window=window) if window else FullAttention(*sizes)


def latent(num_layers: int, *, width: int = 576, heads: int = 128, indexer: int | None = None) -> AnyLayer:
    """Layers of multi-head latent attention."""
    return LatentAttention(tuple(range(num_layers)), heads, width, indexer_head_dim=indexer)


def recurrent(indices: Sequence[int], **state: tuple[int, ...]) -> AnyLayer:
    """Layers with a constant state, tensor by tensor."""
    tensors = tuple(StateTensor(name, shape) for name, shape in state.items())
    return Recurrent(tuple(indices), state=tensors)


def every(total: int, step: int, *, offset: int = -1) -> tuple[list[int], list[int]]:
    """Indices of every ``step``-th layer (the last of each run), and of the others."""
    chosen = list(range(offset % step, total, step))
    return chosen, [index for index in range(total) if index not in set(chosen)]


def inspection(
    layers: Layers,
    *,
    hidden: int,
    inner: int,
    vocab: int,
    heads: int,
    context: int = 131_072,
    weights: WeightBytes | None = None,
    block: Block | None = None,
    parameters: int | None = None,
    format: Format = "safetensors",
    source: str = "test/model",
    **facts: Any,
) -> Inspection:
    """An inspection that states these dimensions as facts."""
    stated: dict[str, Any] = {
        "active_parameters": parameters if not facts.get("num_experts") else None,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "vocab_size": vocab,
        "num_attention_heads": heads,
        "num_hidden_layers": sum(group.count for group in layers),
        "max_position_embeddings": context,
        "native_context": context,
        "supported_context": context,
        "rope_theta": 1e6,
        **facts,
    }
    return Inspection(
        checkpoint=CheckpointSummary(
            source=source,
            kind="model",
            format=format,
            files=(),
            num_tensors=0,
            tensor_bytes=weights.total if weights else 0,
            stored_elements=0,
            parameters=parameters,
            dtypes={},
        ),
        facts={name: Fact(value, "config") for name, value in stated.items()},
        layers=layers,
        block=block,
        weights=weights,
        findings=(),
    )


def qwen3_8b(**facts: Any) -> Inspection:
    """Qwen3-8B: 8,190,735,360 parameters in bf16 (QwenLM/Qwen3, config and index)."""
    layers = 36
    block = dense_block(hidden=4096, inner=12288, heads=32, kv=8, dim=128, qk_norm=True)
    return inspection(
        (attention(range(layers), kv=8, dim=128, heads=32),),
        hidden=4096,
        inner=12288,
        vocab=151_936,
        heads=32,
        context=40_960,
        weights=bf16_weights(block, layers, hidden=4096, vocab=151_936, tied=False),
        block=block,
        parameters=8_190_735_360,
        source="Qwen/Qwen3-8B",
        **{"model_type": "qwen3", "tie_word_embeddings": False, **facts},
    )


def llama_8b() -> Inspection:
    """Llama-3.1-8B: 8,030,261,248 parameters in bf16."""
    block = dense_block(hidden=4096, inner=14336, heads=32, kv=8, dim=128)
    return inspection(
        (attention(range(32), kv=8, dim=128, heads=32),),
        hidden=4096,
        inner=14336,
        vocab=128_256,
        heads=32,
        weights=bf16_weights(block, 32, hidden=4096, vocab=128_256, tied=False),
        block=block,
        parameters=8_030_261_248,
        source="meta-llama/Llama-3.1-8B",
        model_type="llama",
        tie_word_embeddings=False,
    )


def smollm2() -> Inspection:
    """SmolLM2-135M-Instruct, bf16: 269,030,016 tensor bytes, tied (HuggingFaceTB)."""
    block = dense_block(hidden=576, inner=1536, heads=9, kv=3, dim=64)
    return inspection(
        (attention(range(30), kv=3, dim=64, heads=9),),
        hidden=576,
        inner=1536,
        vocab=49_152,
        heads=9,
        context=8192,
        weights=bf16_weights(block, 30, hidden=576, vocab=49_152, tied=True),
        block=block,
        parameters=134_515_008,
        source="HuggingFaceTB/SmolLM2-135M-Instruct",
        model_type="llama",
        rope_theta=100_000.0,
        tie_word_embeddings=True,
    )


def gemma3_270m() -> Inspection:
    """Gemma 3 270M: 15 of 18 layers with a window of 512."""
    full, sliding = every(18, 6)
    return inspection(
        (attention(full, kv=1, dim=256, heads=4), attention(sliding, kv=1, dim=256, heads=4, window=512)),
        hidden=640,
        inner=2048,
        vocab=262_144,
        heads=4,
        context=32_768,
        source="google/gemma-3-270m",
        model_type="gemma3_text",
        tie_word_embeddings=True,
    )


def gemma3_27b() -> Inspection:
    """Gemma 3 27B: 10 full layers, 52 with a window of 1,024."""
    full, sliding = every(62, 6)
    return inspection(
        (
            attention(full, kv=16, dim=128, heads=32),
            attention(sliding, kv=16, dim=128, heads=32, window=1024),
        ),
        hidden=5376,
        inner=21504,
        vocab=262_208,
        heads=32,
        source="google/gemma-3-27b-it",
        model_type="gemma3_text",
        tie_word_embeddings=True,
    )


def gpt_oss_20b() -> Inspection:
    """gpt-oss-20b: 12 full layers, 12 with a window of 128, 32 experts of which 4 are used."""
    full, sliding = every(24, 2)
    return inspection(
        (attention(full, kv=8, dim=64, heads=64), attention(sliding, kv=8, dim=64, heads=64, window=128)),
        hidden=2880,
        inner=2880,
        vocab=201_088,
        heads=64,
        source="openai/gpt-oss-20b",
        model_type="gpt_oss",
        num_experts=32,
        num_experts_per_tok=4,
        moe_intermediate_size=2880,
    )


def deepseek_v3(*, indexer: int | None = None) -> Inspection:
    """DeepSeek-V3: 61 layers of latent attention, 512 + 64 wide."""
    return inspection(
        (latent(61, indexer=indexer),),
        hidden=7168,
        inner=18432,
        vocab=129_280,
        heads=128,
        context=163_840,
        source="deepseek-ai/DeepSeek-V3",
        model_type="deepseek_v3",
        kv_lora_rank=512,
        q_lora_rank=1536,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
        num_experts=256,
        num_experts_per_tok=8,
        moe_intermediate_size=2048,
    )


def qwen3_next_80b(**facts: Any) -> Inspection:
    """Qwen3-Next-80B-A3B: every fourth of 48 layers attends, the others are gated delta nets."""
    full, rest = every(48, 4)
    state = {"conv": (3, 8192), "ssm": (32, 128, 128)}
    return inspection(
        (attention(full, kv=2, dim=256, heads=16), recurrent(rest, **state)),
        hidden=2048,
        inner=5120,
        vocab=151_936,
        heads=16,
        context=262_144,
        source="Qwen/Qwen3-Next-80B-A3B-Instruct",
        model_type="qwen3_next",
        num_experts=512,
        num_experts_per_tok=10,
        moe_intermediate_size=512,
        linear_key_head_dim=128,
        **facts,
    )


def dense_block(*, hidden: int, inner: int, heads: int, kv: int, dim: int, qk_norm: bool = False) -> Block:
    """The tensors of a block with grouped-query attention and a gated feed-forward."""
    shapes: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj.weight": (heads * dim, hidden),
        "self_attn.k_proj.weight": (kv * dim, hidden),
        "self_attn.v_proj.weight": (kv * dim, hidden),
        "self_attn.o_proj.weight": (hidden, heads * dim),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
    }
    if qk_norm:
        shapes |= {"self_attn.q_norm.weight": (dim,), "self_attn.k_norm.weight": (dim,)}
    tensors = tuple(BlockTensor(name, shape, _elements(shape)) for name, shape in shapes.items())
    return Block(
        parameters=sum(tensor.parameters for tensor in tensors),
        attention_parameters=sum(t.parameters for t in tensors if t.name.startswith("self_attn")),
        feed_forward_parameters=sum(t.parameters for t in tensors if t.name.startswith("mlp")),
        tensors=tensors,
    )


def bf16_weights(block: Block, num_layers: int, *, hidden: int, vocab: int, tied: bool) -> WeightBytes:
    """Two bytes for everything."""
    return WeightBytes(
        embedding=2 * vocab * hidden,
        output_head=0 if tied else 2 * vocab * hidden,
        other=2 * hidden,
        layers=(2 * block.parameters,) * num_layers,
        experts=(0,) * num_layers,
        mtp=0,
        towers=0,
    )


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
