"""Rates against arrays and figures computed by transformers 5.24 and vLLM 0.33 (float32)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.engines import EngineName
from ropewalk.planner.rope.frequencies import (
    RotationInputs,
    attention_factor,
    base_rates,
    correction_range,
    magnitude,
    mrope_axes,
    ntk_base,
    rotation,
    yarn_attention_factor,
)

Block = dict[str, Any]


def rates_of(
    block: Block, dim: int, *, engine: EngineName = "transformers", **inputs: Any
) -> tuple[float, ...]:
    return rotation(block, RotationInputs(inputs.pop("head_dim", dim), dim, engine=engine, **inputs)).rates


def yarn(theta: float, factor: float, original: int, **more: Any) -> Block:
    return {
        "rope_type": "yarn",
        "rope_theta": theta,
        "factor": factor,
        "original_max_position_embeddings": original,
        **more,
    }


def llama3(factor: float) -> Block:
    return {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": factor,
        "original_max_position_embeddings": 8192,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    }


# Lists made up for the reference: 1 + 0.01 i and 1 + 1.25 i for d = 96.
LONGROPE: Block = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1 + 0.01 * i for i in range(48)],
    "long_factor": [1 + 1.25 * i for i in range(48)],
    "original_max_position_embeddings": 4096,
}
GPT_OSS = yarn(150000.0, 32.0, 4096)

# (block, d, inputs, rates at 0, n/4, n/2, 3n/4, n-1), transformers 5.24 executed.
GOLDEN = [
    pytest.param(
        {"rope_type": "default", "rope_theta": 1e6}, 128, {},
        (1, 0.0316227766, 0.001, 3.16227766e-5, 1.240937761e-6), id="qwen3-default",
    ),
    pytest.param(
        yarn(1e6, 2.0, 32768), 128, {},
        (1, 0.03162277862, 7.35294132e-4, 1.581138713e-5, 6.204688816e-7), id="qwen3-yarn-2",
    ),
    pytest.param(
        yarn(1e6, 3.2, 32768), 128, {},
        (1, 0.03162277862, 6.360294065e-4, 9.882117411e-6, 3.87793051e-7), id="qwen3-yarn-3.2",
    ),
    pytest.param(
        yarn(1e6, 4.0, 32768), 128, {},
        (1, 0.03162277862, 6.029411452e-4, 7.905693565e-6, 3.102344408e-7), id="qwen3-yarn-4",
    ),
    pytest.param(
        yarn(1e6, 4.0, 40960), 128, {},
        (1, 0.03162277862, 6.470588851e-4, 7.905693565e-6, 3.102344408e-7), id="qwen3-yarn-4-wrong-original",
    ),
    pytest.param(
        {**GPT_OSS, "truncate": False}, 64, {},
        (1, 0.0508132726, 4.564839182e-4, 4.099978469e-6, 3.023511397e-7), id="gpt-oss",
    ),
    pytest.param(
        {**GPT_OSS, "truncate": False}, 64, {"engine": "llama-server"},
        (1, 0.0508132726, 5.809474969e-4, 4.099978469e-6, 3.023511397e-7), id="gpt-oss-llama.cpp",
    ),
    pytest.param(
        yarn(1e4, 40.0, 4096, mscale=1.0, mscale_all_dim=1.0), 64, {},
        (1, 0.1, 0.0055, 2.5e-5, 3.333803534e-6), id="deepseek-v3",
    ),
    pytest.param(
        yarn(5e4, 64.0, 4096, mscale=1.0, mscale_all_dim=1.0), 64, {},
        (1, 0.0668740347, 1.537296688e-3, 4.672965133e-6, 4.382206384e-7), id="kimi-k2.5",
    ),
    pytest.param(
        yarn(1e7, 4.0, 262144), 64, {},
        (1, 0.01778279431, 2.569350763e-4, 1.405853368e-6, 4.137042708e-8), id="qwen3-next",
    ),
    pytest.param(
        llama3(8.0), 128, {},
        (1, 0.0376060307, 5.24846022e-4, 6.647869668e-6, 3.068925878e-7), id="llama-3.1",
    ),
    pytest.param(
        llama3(32.0), 64, {},
        (1, 0.0376060307, 4.295567051e-4, 1.661967417e-6, 9.41830649e-8), id="llama-3.2-1b",
    ),
    pytest.param(
        LONGROPE, 96, {"max_position_embeddings": 131072, "seq_len": 4096},
        (1, 0.08928571641, 8.064515889e-3, 7.35294132e-4, 8.241683827e-5), id="longrope-short",
    ),
    pytest.param(
        LONGROPE, 96, {"max_position_embeddings": 131072, "seq_len": 4097},
        (1, 6.250000093e-3, 3.225806577e-4, 2.173912981e-5, 2.027661139e-6), id="longrope-long",
    ),
    pytest.param(
        {"rope_type": "linear", "rope_theta": 1e6, "factor": 4.0}, 128, {},
        (0.25, 7.905694656e-3, 2.500000119e-4, 7.905693565e-6, 3.102344408e-7), id="linear",
    ),
    pytest.param(
        {"rope_type": "dynamic", "rope_theta": 1e6, "factor": 2.0}, 128,
        {"max_position_embeddings": 40960, "seq_len": 81920},
        (1, 0.02392358892, 5.723381182e-4, 1.369238362e-5, 4.136459211e-7), id="dynamic",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("block", "dim", "inputs", "expected"), GOLDEN)
def test_rates_are_those_of_transformers(
    block: Block, dim: int, inputs: dict[str, Any], expected: tuple[float, ...]
) -> None:
    rates = rates_of(block, dim, **inputs)
    n = dim // 2
    assert len(rates) == n
    assert [rates[i] for i in (0, n // 4, n // 2, 3 * n // 4, n - 1)] == pytest.approx(expected, rel=1e-6)


def test_whole_arrays_agree_with_the_reference(shared: Path) -> None:
    reference = json.loads((shared / "spec" / "rope_reference.json").read_text())
    longrope = {"max_position_embeddings": 131072}
    cases: dict[str, tuple[Block, int, dict[str, Any]]] = {
        "qwen3-8b_yarn_f4_orig32768": (yarn(1e6, 4.0, 32768), 128, {}),
        "qwen3-8b_yarn_f2_orig32768": (yarn(1e6, 2.0, 32768), 128, {}),
        "llama31-8b_llama3_f8": (llama3(8.0), 128, {}),
        "llama32-1b_llama3_f32": (llama3(32.0), 64, {}),
        "gpt-oss_yarn_f32_truncate_false": ({**GPT_OSS, "truncate": False}, 64, {}),
        "deepseek-v3_yarn_f40": (yarn(1e4, 40.0, 4096, mscale=1.0, mscale_all_dim=1.0), 64, {}),
        "phi3_longrope_short_synth": (LONGROPE, 96, {**longrope, "seq_len": 4096}),
        "phi3_longrope_long_synth": (LONGROPE, 96, {**longrope, "seq_len": 131072}),
    }
    assert set(cases) == set(reference)
    for name, (block, dim, inputs) in cases.items():
        result = rotation(block, RotationInputs(dim, dim, **inputs))
        assert result.rates == pytest.approx(reference[name]["inv_freq"], rel=1e-6), name
        assert result.attention_factor == pytest.approx(reference[name]["attention_factor"], rel=1e-9), name


def test_qwen3_pairs_within_the_ramp() -> None:
    rates = rates_of(yarn(1e6, 4.0, 32768), 128)
    expected = {
        22: 8.659643121e-3, 24: 5.375321489e-3, 28: 1.848276588e-3, 36: 1.79841154e-4, 39: 6.4903943e-5,
        40: 4.4456985e-5,
    }  # fmt: skip
    assert {i: rates[i] for i in expected} == pytest.approx(expected, rel=1e-6)


def test_llama3_keeps_fast_pairs_and_divides_slow_ones() -> None:
    plain, scaled = base_rates(5e5, 128), rates_of(llama3(8.0), 128)
    ratios = [before / after for before, after in zip(plain, scaled, strict=True)]
    # rope_freqs.weight of a converted Llama-3.1-8B (llama.cpp conversion/llama.py:298)
    expected = {28: 1.0, 29: 1.207484, 30: 1.553415, 32: 2.69453, 34: 5.257327, 35: 8.0}
    assert {i: ratios[i] for i in expected} == pytest.approx(expected, rel=1e-6)
    assert ratios[:29] == pytest.approx([1.0] * 29)
    assert ratios[35:] == pytest.approx([8.0] * 29)


def test_proportional_turns_a_quarter_of_the_pairs() -> None:
    """Gemma 4's global layers: 64 of 256 pairs, sum of rates from transformers 5.24."""
    block: Block = {"rope_type": "proportional", "rope_theta": 1e6}
    rates = rates_of(block, 128, head_dim=512)
    assert len(rates) == 256
    assert all(rates[:64])
    assert not any(rates[64:])
    assert sum(rates) == pytest.approx(18.43247467, rel=1e-6)


def test_only_transformers_divides_proportional_rates_by_a_factor() -> None:
    block: Block = {"rope_type": "proportional", "rope_theta": 1e6, "factor": 8.0}
    assert rates_of(block, 128, head_dim=512)[0] == 0.125
    assert rates_of(block, 128, head_dim=512, engine="vllm")[0] == 1.0


def test_hunyuan_alpha_is_a_fixed_base() -> None:
    assert ntk_base(10000.0, 1000.0, 128) == pytest.approx(11158839.92507748, rel=1e-12)
    block: Block = {"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 1000.0, "factor": 1.0}
    assert rates_of(block, 128, engine="vllm") == pytest.approx(base_rates(11158839.92507748, 128))


def test_dynamic_base_follows_the_prompt_in_transformers_only() -> None:
    assert ntk_base(1e6, 2.0 * 81920 / 40960 - 1.0, 128) == pytest.approx(3052773.675, rel=1e-9)
    block: Block = {"rope_type": "dynamic", "rope_theta": 1e6, "factor": 2.0}
    lengths = {"max_position_embeddings": 40960, "seq_len": 81920}
    assert rates_of(block, 128, engine="vllm", **lengths) == base_rates(1e6, 128)
    assert rates_of(block, 128, max_position_embeddings=40960, seq_len=1000) == base_rates(1e6, 128)


def test_ntk_slows_the_last_pair_by_the_factor_and_more() -> None:
    rates = rates_of({"rope_type": "ntk", "rope_theta": 1e4, "factor": 4.0}, 64)
    assert rates[0] == pytest.approx(4 ** (-2 / 64))
    assert rates[31] == pytest.approx(4e4 ** (-62 / 64) * 4 ** (-2 / 64))
    mixed = rates_of({"rope_type": "ntk", "rope_theta": 1e4, "factor": 4.0, "mixed_b": 0.625}, 64)
    assert mixed[31] == pytest.approx(1e4 ** (-62 / 64) / 4)
    assert mixed[0] == pytest.approx(4 ** -((1 / 32) ** 0.625))


def test_correction_ranges() -> None:
    assert correction_range(128, 1e6, 32768) == (23, 40)
    assert correction_range(128, 1e6, 40960) == (24, 41)
    assert correction_range(64, 150000.0, 4096, truncate=False) == pytest.approx(
        (8.09278, 17.39802), rel=1e-6
    )
    assert correction_range(64, 150000.0, 4096) == (8, 18)
    assert correction_range(64, 1e7, 262144) == (14, 22)
    assert correction_range(64, 1e7, 4 * 262144) == (16, 24)  # vLLM's chunked M-RoPE
    assert correction_range(64, 1e4, 6) == (0, 0.001)  # both ends clamped: no division by zero


def test_attention_factors() -> None:
    assert yarn_attention_factor(yarn(1e6, 3.2, 32768)) == pytest.approx(1.116315081, rel=1e-9)
    assert yarn_attention_factor(GPT_OSS) == pytest.approx(1.34657359, rel=1e-9)
    assert yarn_attention_factor(yarn(1e4, 40.0, 4096, mscale=0.707, mscale_all_dim=0.707)) == 1.0
    assert yarn_attention_factor(yarn(1e4, 4.0, 4096, mscale=1.0, mscale_all_dim=0)) == magnitude(4.0)
    assert yarn_attention_factor(yarn(1e4, 4.0, 4096, attention_factor=1.0)) == 1.0


def test_vllm_derives_longrope_magnitude_from_the_lengths() -> None:
    block = {**LONGROPE, "factor": 8.0, "attention_factor": 1.5}
    lengths: dict[str, Any] = {"max_position_embeddings": 131072}
    assert attention_factor(block, engine="transformers", **lengths) == 1.5
    assert attention_factor(block, engine="vllm", **lengths) == pytest.approx(1.1902380714238083)
    del block["attention_factor"]
    assert attention_factor(block, engine="transformers", **lengths) == pytest.approx(
        math.sqrt(1 + math.log(8) / math.log(4096))
    )


def latent_softmax_scale(qk_head_dim: int, block: dict[str, Any]) -> float:
    """qk_head_dim ** -0.5 * magnitude(factor, mscale_all_dim) ** 2: DeepSeek-V2 and V3 under YaRN."""
    all_dim = block.get("mscale_all_dim")
    return float(qk_head_dim**-0.5 * (magnitude(block["factor"], all_dim) ** 2 if all_dim else 1.0))


def test_latent_attention_scales_its_softmax() -> None:
    """DeepSeek-V3, V2-Lite and Kimi-K2.5 (transformers 5.24)."""
    v3 = yarn(1e4, 40.0, 4096, mscale=1.0, mscale_all_dim=1.0)
    assert latent_softmax_scale(192, v3) == pytest.approx(0.1352337789, rel=1e-9)
    lite = yarn(1e4, 40.0, 4096, mscale=0.707, mscale_all_dim=0.707)
    assert latent_softmax_scale(192, lite) == pytest.approx(0.1147213868, rel=1e-9)
    kimi = yarn(5e4, 64.0, 4096, mscale=1.0, mscale_all_dim=1.0)
    assert latent_softmax_scale(192, kimi) == pytest.approx(0.1446796258, rel=1e-9)
    assert latent_softmax_scale(192, yarn(1e4, 40.0, 4096)) == 192**-0.5


def test_mrope_axes() -> None:
    chunked = mrope_axes([16, 24, 24], interleaved=False)
    assert [chunked.count(axis) for axis in (0, 1, 2)] == [16, 24, 24]
    assert chunked[15:17] == (0, 1)
    interleaved = mrope_axes([24, 20, 20], interleaved=True)
    assert interleaved[:7] == (0, 1, 2, 0, 1, 2, 0)
    assert interleaved[58:] == (1, 2, 0, 0, 0, 0)
    assert [interleaved.count(axis) for axis in (0, 1, 2)] == [24, 20, 20]
    assert [mrope_axes([11, 11, 10], interleaved=True).count(axis) for axis in (0, 1, 2)] == [11, 11, 10]


@settings(deadline=None)
@given(
    theta=st.sampled_from([1e4, 1e5, 1e6, 1e7]),
    dim=st.sampled_from([32, 64, 96, 128, 256]),
    factor=st.floats(1.0, 64.0),
    original=st.integers(2048, 2**20),
)
def test_yarn_moves_every_pair_between_itself_and_its_quotient(
    theta: float, dim: int, factor: float, original: int
) -> None:
    plain, scaled = base_rates(theta, dim), rates_of(yarn(theta, factor, original), dim)
    for before, after in zip(plain, scaled, strict=True):
        assert before / factor * (1 - 1e-12) <= after <= before * (1 + 1e-12)
    assert list(scaled) == sorted(scaled, reverse=True)
