"""Work against golden numbers that were recomputed by brute force or published."""

from __future__ import annotations

from typing import Any

import pytest
from tests.planner.models import (
    attention,
    deepseek_v3,
    gemma3_27b,
    inspection,
    qwen3_8b,
    qwen3_next_80b,
    recurrent,
    smollm2,
)

from ropewalk.inspector.layer_kinds import CrossAttention
from ropewalk.inspector.records import Inspection
from ropewalk.planner.caches import CacheType
from ropewalk.planner.compute import (
    causal_cells,
    chunk_cells,
    compute_of,
    padded_cells,
    window_cells,
)
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.params import linear_parameters
from ropewalk.planner.records import Compute
from ropewalk.units import GIB

BF16 = CacheType("bfloat16", 1, 2)
H100 = Machine("gpu", bandwidth=3.35e12, peak_flops=989e12)


def work(model: Inspection, length: int, machine: Machine = Machine()) -> Compute:  # noqa: B008
    return compute_of(shape_of(model), context_len=length, key=BF16, value=BF16, machine=machine)


def test_live_cells() -> None:
    assert causal_cells(32_768) == 536_887_296
    assert window_cells(32_768, 4096) == 125_831_168
    assert chunk_cells(32_768, 8192) == 134_234_112
    assert padded_cells(32_768, 1000) == 504_618_796


@pytest.mark.parametrize(("length", "reach"), [(1, 1), (5, 3), (64, 16), (50, 64), (33, 32)])
def test_cells_by_counting(length: int, reach: int) -> None:
    pairs = [(query, key) for query in range(length) for key in range(query + 1)]
    assert causal_cells(length) == len(pairs)
    assert window_cells(length, reach) == sum(query - key < reach for query, key in pairs)
    assert chunk_cells(length, reach) == sum(query // reach == key // reach for query, key in pairs)


def test_linear_parameters_of_qwen3_8b() -> None:
    """36 blocks of 192,937,984 (192,946,432 with norms)."""
    assert linear_parameters(shape_of(qwen3_8b())) == 36 * 192_937_984


@pytest.mark.parametrize(
    ("length", "attention_tera", "total_tera"),
    [(4096, 4.949, 61.850), (32_768, 316.669, 771.868), (131_072, 5066.588, 6887.381)],
)
def test_prefill_of_qwen3_8b(length: int, attention_tera: float, total_tera: float) -> None:
    prefill = work(qwen3_8b(), length).prefill
    total = prefill.linear_flops + prefill.attention_flops_causal
    assert round(prefill.attention_flops_causal / 1e12, 3) == attention_tera
    assert total / 1e12 == pytest.approx(total_tera, abs=0.0015)
    assert prefill.attention_flops == 36 * 4 * 32 * 128 * length**2


@pytest.mark.parametrize(
    ("length", "giga", "kv"),
    [(4096, 17.552, 603_979_776), (32_768, 34.464, 4_831_838_208), (131_072, 92.446, 19_327_352_832)],
)
def test_decode_of_qwen3_8b(length: int, giga: float, kv: int) -> None:
    decode = work(qwen3_8b(), length).decode
    assert decode.bytes_per_token == 15_136_811_008 + kv
    assert round(decode.flops_per_token / 1e9, 3) == giga


@pytest.mark.parametrize(("length", "milliseconds"), [(4096, 4.699), (32_768, 5.961), (131_072, 10.288)])
def test_speed_is_a_bound(length: int, milliseconds: float) -> None:
    speed = work(qwen3_8b(), length, H100).speed
    assert speed is not None
    assert speed.basis == "bound"
    assert speed.decode_tokens_per_second is not None
    assert 1000 / speed.decode_tokens_per_second == pytest.approx(milliseconds, abs=0.001)
    assert speed.prefill_seconds is not None


def test_no_figures_no_speed() -> None:
    assert work(qwen3_8b(), 4096).speed is None
    partly = work(qwen3_8b(), 4096, Machine(bandwidth=1e12)).speed
    assert partly is not None
    assert partly.prefill_seconds is None


def test_crossover_of_causal_attention() -> None:
    """parameters / (heads x head_dim): half of the square costs as much at twice the length."""
    assert work(qwen3_8b(), 4096).crossover_len == 47_104
    wide = inspection((attention(range(48), kv=4, dim=128, heads=32),), **moe_dimensions())
    assert work(wide, 4096).crossover_len == 2 * 6944  # Qwen3-30B-A3B, 56,885,248 active


def moe_dimensions() -> dict[str, Any]:
    return {
        "hidden": 2048, "inner": 6144, "vocab": 151_936, "heads": 32, "num_experts": 128,
        "num_experts_per_tok": 8, "moe_intermediate_size": 768,
    }  # fmt: skip


def test_windows_alone_never_overtake() -> None:
    model = inspection((attention(range(4), kv=1, dim=64, heads=8, window=128),), hidden=512, inner=2048,
                       vocab=64, heads=8)  # fmt: skip
    assert work(model, 4096).crossover_len is None


def test_one_square_of_scores() -> None:
    assert work(qwen3_8b(), 32_768).score_matrix_bytes == 64 * GIB
    assert work(qwen3_8b(), 131_072).score_matrix_bytes == 1024 * GIB


def test_a_mask_with_a_window() -> None:
    assert work(qwen3_8b(), 32_768).mask.window is None
    mask = work(gemma3_27b(), 32_768).mask
    assert (mask.causal, mask.window) == (536_887_296, window_cells(32_768, 1024))


def test_latent_attention_is_priced_projected_up() -> None:
    """128 heads of 192 + 128: 81,920 FLOPs per pair (prefill)."""
    prefill = work(deepseek_v3(), 1000).prefill
    assert prefill.attention_flops_causal == 61 * 81_920 * causal_cells(1000)


def test_recurrent_layers_have_no_square() -> None:
    both = work(qwen3_next_80b(), 1000).prefill
    assert both.attention_flops == 12 * 4 * 16 * 256 * 1000**2
    none = work(
        inspection((recurrent(range(4), conv=(3, 64), ssm=(64, 16)),), hidden=32, inner=0, vocab=64, heads=0),
        1000,
    )
    assert (none.prefill.attention_flops, none.attention_share, none.crossover_len) == (0, 0.0, None)


def test_cross_attention_reads_the_encoder() -> None:
    layers = (CrossAttention((0, 1), 8, 8, 64, 64),)
    model = inspection(layers, hidden=512, inner=2048, vocab=64, heads=8, max_source_positions=1500)
    assert work(model, 100).prefill.attention_flops_causal == 2 * 2 * 8 * 128 * 100 * 1500


def test_a_tied_head_is_read_once() -> None:
    assert work(smollm2(), 1).decode.bytes_per_token == 269_030_016 + 23_040


def test_experts_that_are_not_chosen_are_not_read() -> None:
    dimensions = moe_dimensions()
    model = inspection((attention(range(2), kv=4, dim=128, heads=32),), **dimensions)
    weights = shape_of(model).weights
    chosen = sum(weights.experts) * 8 // 128
    read = work(model, 1).decode.bytes_per_token - 2 * 2 * 4 * 128 * 2
    assert read == weights.output_head + sum(weights.layers) - sum(weights.experts) + chosen
