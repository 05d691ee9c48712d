"""Weights over stages and ranks, and what a bare config's would take."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from tests.planner.models import (
    attention,
    deepseek_v3,
    gemma3_27b,
    gpt_oss_20b,
    inspection,
    llama_8b,
    qwen3_8b,
    qwen3_next_80b,
)

from ropewalk.errors import UsageError
from ropewalk.inspector.layer_kinds import CrossAttention, NoCache
from ropewalk.inspector.records import Block, BlockTensor, Inspection, WeightBytes
from ropewalk.planner.model import shape_of
from ropewalk.planner.params import estimated_weights
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.weights import stage_weights


def on_a_rank(shape: ModelShape, stages: list[tuple[int, int]], ranks: int) -> tuple[int, ...]:
    """One rank of each stage, experts sliced like everything else."""
    return tuple(stage.on_rank(1, ranks) for stage in stage_weights(shape, stages, ranks))


WEIGHTS = WeightBytes(
    embedding=1000, output_head=800, other=8, layers=(100,) * 4, experts=(0,) * 4, mtp=50, towers=70
)


def test_embedding_first_head_last() -> None:
    shape = replace(shape_of(qwen3_8b()), weights=WEIGHTS)
    assert on_a_rank(shape, [(0, 2), (2, 4)], 1) == (1200, 1008)
    assert on_a_rank(shape, [(0, 4)], 1) == (2208,)


def test_a_tied_embedding_is_on_both_ends() -> None:
    shape = replace(shape_of(qwen3_8b()), weights=replace(WEIGHTS, output_head=0))
    assert on_a_rank(shape, [(0, 2), (2, 4)], 1) == (1200, 1208)
    assert on_a_rank(shape, [(0, 4)], 1) == (1408,)


def test_norms_are_on_every_rank() -> None:
    shape = shape_of(llama_8b())
    weights = shape.weights
    (each,) = on_a_rank(shape, [(0, 32)], 8)
    vectors = 32 * 2 * 2 * 4096 + weights.other
    assert each == pytest.approx((weights.total - vectors) // 8 + vectors, abs=64)


def test_what_every_rank_holds_whole() -> None:
    """Norms, the router and latent down-projections; fused projections repeat the KV heads in them."""
    shapes = {
        "input_layernorm.weight": (64,),
        "mlp.gate.weight": (16, 64),
        "self_attn.kv_a_proj_with_mqa.weight": (32, 64),
        "self_attn.qkv_proj.weight": (8 + 2 * 2, 64),
        "mlp.up_proj.weight": (128, 64),
    }
    tensors = tuple(BlockTensor(name, dims, prod(dims)) for name, dims in shapes.items())
    block = Block(sum(tensor.parameters for tensor in tensors), 0, 0, tensors)
    layers = (attention(range(1), kv=2, dim=1, heads=8),)
    weights = WeightBytes(0, 0, 0, (2 * block.parameters,), (0,), 0, 0)
    model = inspection(layers, hidden=64, inner=128, vocab=64, heads=8, block=block, weights=weights)
    held = 64 + 16 * 64 + 32 * 64 + (8 // 4 + 2 * 1) * 64 + 128 // 4 * 64
    assert on_a_rank(shape_of(model), [(0, 1)], 4) == (2 * held,)


def test_without_a_block_everything_is_divided() -> None:
    shape = shape_of(deepseek_v3())
    (each,) = on_a_rank(shape, [(0, 61)], 8)
    assert each == pytest.approx(shape.weights.total / 8, rel=0.001)


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (qwen3_8b(tie_word_embeddings=False), 8_190_735_360),
        (llama_8b(), 8_030_261_248),
        (gemma3_27b(), 27_009_346_304),
        (gpt_oss_20b(), 20_914_757_184),
        (deepseek_v3(), 671_026_419_200),
        (qwen3_next_80b(), 79_674_391_296),
    ],
)
def test_estimates_of_known_models(model: Inspection, parameters: int) -> None:
    """Published parameter counts; what the dimensions do not tell (norms, shared experts, dense first
    layers) is below 5 %."""
    shape = replace(shape_of(model), block=None)
    assert estimated_weights(shape).total / 2 == pytest.approx(parameters, rel=0.05)


def test_a_block_that_attends_twice_has_one_feed_forward() -> None:
    layers = (
        attention(range(2), kv=4, dim=16, heads=4),
        CrossAttention((0, 1), 4, 4, 16, 16),
    )
    model = inspection(layers, hidden=64, inner=256, vocab=10, heads=4, tie_word_embeddings=True)
    weights = shape_of(model).weights
    assert weights.layers == (2 * (2 * 4 * 64 * 64 + 3 * 64 * 256),) * 2
    assert weights.total == weights.embedding + sum(weights.layers)


def test_mtp_layers_must_be_there() -> None:
    with pytest.raises(UsageError, match="no MTP layers"):
        shape_of(qwen3_8b(), mtp=1)


def test_a_quantised_config_counts_bits_and_scales() -> None:
    """Qwen3-8B in fp8: blocks at one byte, scales of 128 x 128 left out, embedding and head at two."""
    stated = {"method": "fp8", "bits": 8, "group_size": [128, 128], "format": "e4m3"}
    bare = replace(qwen3_8b(quantization=stated), weights=None, block=None)
    weights = shape_of(bare).weights
    assert (weights.embedding, sum(weights.layers)) == (1_244_659_712, 36 * 192_937_984)
    grouped = replace(qwen3_8b(quantization={"bits": 4, "group_size": 64}), weights=None, block=None)
    assert sum(shape_of(grouped).weights.layers) == 36 * int(192_937_984 * 4.25 / 8)


def test_blocks_that_mix_or_feed_forward() -> None:
    """Nemotron-H: a block that keeps nothing is a feed-forward, and the others have none."""
    layers = (attention([0], kv=4, dim=16, heads=4), NoCache((1,)))
    weights = shape_of(inspection(layers, hidden=64, inner=256, vocab=10, heads=4)).weights
    assert weights.layers == (2 * 4 * 64 * 64, 2 * 3 * 64 * 256)


def test_experts_as_wide_as_the_feed_forward() -> None:
    """Mixtral states one width."""
    layers = (attention(range(1), kv=4, dim=16, heads=4),)
    model = inspection(layers, hidden=64, inner=256, vocab=10, heads=4, num_experts=8, num_experts_per_tok=2)
    assert shape_of(model).weights.experts == (2 * 8 * 3 * 64 * 256,)


def test_towers_and_drafts_are_apart() -> None:
    model = inspection(
        qwen3_8b().layers, hidden=64, inner=64, vocab=64, heads=32, weights=WEIGHTS, mtp_layers=1
    )
    shape = shape_of(model, mtp=1)
    assert shape.projector_bytes == 70
    assert shape.draft is not None
    assert (shape.draft.weights_bytes, shape.draft.layers[0].count) == (50, 1)
    assert shape.cached_layers[-1].indices == (36,)
    tower = inspection((), hidden=64, inner=64, vocab=64, heads=8, weights=WEIGHTS)
    assert shape_of(qwen3_8b(), projector=tower).projector_bytes == WEIGHTS.total
    assert shape_of(model).draft is None
