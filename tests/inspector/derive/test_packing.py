"""Packed words to parameters: scales, zero points and buffers are none."""

from __future__ import annotations

from typing import Any

import pytest
from tests.inspector.made import inspect

from ropewalk.inspector.derive.names import Row
from ropewalk.inspector.derive.packing import PackingHint, unpack

Stored = dict[str, tuple[str, tuple[int, ...]]]

# A matrix of 4096 x 4096 in each packing, as its quantiser stores it.
PACKINGS: list[tuple[str, Stored, PackingHint]] = [
    (
        "GPTQ, 4 bits",
        {"q.qweight": ("I32", (512, 4096)), "q.qzeros": ("I32", (32, 512)), "q.scales": ("F16", (32, 4096)),
         "q.g_idx": ("I32", (4096,))},
        PackingHint(),
    ),
    (
        "GPTQ, 3 bits: words do not hold whole values",
        {"q.qweight": ("I32", (384, 4096)), "q.qzeros": ("I32", (32, 384)), "q.scales": ("F16", (32, 4096)),
         "q.g_idx": ("I32", (4096,))},
        PackingHint(),
    ),
    (
        "AWQ",
        {"q.qweight": ("I32", (4096, 512)), "q.qzeros": ("I32", (32, 512)), "q.scales": ("F16", (32, 4096))},
        PackingHint(),
    ),
    (
        "Marlin: no zero points, bits from the config",
        {"q.qweight": ("I32", (256, 8192)), "q.scales": ("F16", (32, 4096))},
        PackingHint(bits=4),
    ),
    (
        "MLX, 4 bits",
        {"q.weight": ("U32", (4096, 512)), "q.scales": ("BF16", (4096, 64)),
         "q.biases": ("BF16", (4096, 64))},
        PackingHint(4, 64),
    ),
    (
        "MLX, 6 bits beside 4 in the config",
        {"q.weight": ("U32", (4096, 768)), "q.scales": ("BF16", (4096, 64)),
         "q.biases": ("BF16", (4096, 64))},
        PackingHint(4, 64),
    ),
    (
        "bitsandbytes NF4",
        {"q.weight": ("U8", (8388608, 1)), "q.weight.absmax": ("F32", (262144,)),
         "q.weight.quant_map": ("F32", (16,)), "q.weight.quant_state.bitsandbytes__nf4": ("U8", (80,))},
        PackingHint(4),
    ),
    (
        "bitsandbytes NF4 stored as bfloat16",
        {"q.weight": ("BF16", (4194304, 1)), "q.weight.absmax": ("F32", (262144,)),
         "q.weight.quant_map": ("F32", (16,)), "q.weight.quant_state.bitsandbytes__nf4": ("U8", (80,))},
        PackingHint(4),
    ),
    ("LLM.int8", {"q.weight": ("I8", (4096, 4096)), "q.SCB": ("F32", (4096,))}, PackingHint(8)),
    (
        "MXFP4 of gpt-oss",
        {"q_blocks": ("U8", (4096, 128, 16)), "q_scales": ("U8", (4096, 128))},
        PackingHint(4),
    ),
    (
        "NVFP4 of ModelOpt",
        {"q.weight": ("U8", (4096, 2048)), "q.weight_scale": ("F8_E4M3", (4096, 256)),
         "q.weight_scale_2": ("F32", ()), "q.input_scale": ("F32", ())},
        PackingHint(4, 16),
    ),
    (
        "FP4 of DeepSeek-V4: bytes beside one exponent per 32",
        {"q.weight": ("I8", (4096, 2048)), "q.scale": ("F8_E8M0", (4096, 128))},
        PackingHint(8),
    ),
    (
        "compressed-tensors, W4A16",
        {"q.weight_packed": ("I32", (4096, 512)), "q.weight_scale": ("BF16", (4096, 32)),
         "q.weight_shape": ("I64", (2,)), "q.weight_zero_point": ("I32", (512, 32)),
         "q.weight_g_idx": ("I32", (4096,))},
        PackingHint(4, 128),
    ),
    (
        "compressed-tensors, NVFP4",
        {"q.weight_packed": ("U8", (4096, 2048)), "q.weight_scale": ("F8_E4M3", (4096, 256)),
         "q.weight_global_scale": ("F32", (1,)), "q.input_global_scale": ("F32", (1,))},
        PackingHint(4, 16),
    ),
    (
        "fp8 with block scales",
        {"q.weight": ("F8_E4M3", (4096, 4096)), "q.weight_scale_inv": ("F32", (32, 32))},
        PackingHint(8),
    ),
    (
        "W8A8",
        {"q.weight": ("I8", (4096, 4096)), "q.weight_scale": ("BF16", (4096, 1))},
        PackingHint(8),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "hint"), [p[1:] for p in PACKINGS], ids=[p[0] for p in PACKINGS])
def test_every_packing_is_one_matrix(stored: Stored, hint: PackingHint) -> None:
    rows = [Row(name, dtype, shape, 1, _nbytes(dtype, shape)) for name, (dtype, shape) in stored.items()]
    (weight,) = unpack(rows, hint)
    assert weight.total == 4096 * 4096
    assert weight.name.removesuffix(".weight") == "q"


def _nbytes(dtype: str, shape: tuple[int, ...]) -> int:
    width = {"I32": 4, "U32": 4, "F32": 4, "I64": 8, "F16": 2, "BF16": 2}.get(dtype, 1)
    total = width
    for side in shape:
        total *= side
    return total


@pytest.mark.parametrize("dtype", ["I32", "I64", "U32"])
def test_words_of_an_unknown_packing_have_no_count(dtype: str) -> None:
    (weight,) = unpack([Row("q.codes", dtype, (64, 64), 1, 4096)], PackingHint())
    assert weight.total is None


def test_aqlm_codes_stand_for_rows_of_their_codebooks() -> None:
    specs = {
        "model.embed_tokens.weight": ("F16", [100, 64]),
        "model.layers.0.mlp.up_proj.codes": ("I8", [16, 8, 2]),
        "model.layers.0.mlp.up_proj.codebooks": ("F16", [2, 256, 1, 8]),
        "model.layers.0.mlp.up_proj.scales": ("F16", [16, 1, 1, 1]),
    }
    inspection = inspect({"quantization_config": {"quant_method": "aqlm"}}, specs)
    assert inspection.checkpoint.parameters == 100 * 64 + 16 * 8 * 8


def test_codes_into_tables_have_no_count() -> None:
    specs = {
        "model.embed_tokens.weight": ("F16", [100, 64]),
        "model.layers.0.mlp.up_proj.codes": ("I8", [16, 8, 2]),
    }
    inspection = inspect({"quantization_config": {"quant_method": "vptq"}}, specs)
    assert inspection.checkpoint.parameters is None
    assert [finding.code for finding in inspection.findings] == ["packing_unknown"]


@pytest.mark.parametrize(
    "name",
    ["self_attn.rotary_emb.inv_freq", "attention.masked_bias", "mlp.gate.e_score_correction_bias",
     "self_attn.k_scale", "exp_probs_b.bias", "rope_freqs.weight", "embeddings.position_ids"],
)  # fmt: skip
def test_buffers_are_no_parameters(name: str) -> None:
    assert unpack([Row(name, "F32", (64,), 1, 256)], PackingHint()) == []


def test_norm_scales_and_biases_are_parameters() -> None:
    rows = [Row("norm.scale", "F32", (64,), 1, 256), Row("q.weight", "F32", (64, 64), 1, 16384),
            Row("q.bias", "F32", (64,), 1, 256)]  # fmt: skip
    assert [weight.total for weight in unpack(rows, PackingHint())] == [64, 4096, 64]


def test_an_mxfp4_layer_of_gpt_oss_to_the_bit() -> None:
    # openai/gpt-oss-20b: 530,841,600 weights in 282,009,600 bytes, 4.25 bits each.
    prefix = "model.layers.0.mlp.experts.gate_up_proj"
    inspection = inspect(
        {"quantization_config": {"quant_method": "mxfp4"}},
        {f"{prefix}_blocks": ("U8", [32, 5760, 90, 16]), f"{prefix}_scales": ("U8", [32, 5760, 90])},
    )
    assert inspection.checkpoint.parameters == 530_841_600
    assert inspection.checkpoint.tensor_bytes == 282_009_600


def test_awq_heads_are_read_through_the_packing() -> None:
    specs: dict[str, Any] = {"model.embed_tokens.weight": ("F16", [1000, 4096])}
    for name, out in (("q", 4096), ("k", 1024), ("v", 1024), ("o", 4096)):
        module = f"model.layers.0.self_attn.{name}_proj"
        specs |= {
            f"{module}.qweight": ("I32", [4096, out // 8]),
            f"{module}.qzeros": ("I32", [32, out // 8]),
            f"{module}.scales": ("F16", [32, out]),
        }
    config = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 1,
              "num_key_value_heads": 4, "vocab_size": 1000,
              "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}  # fmt: skip
    inspection = inspect(config, specs)
    assert inspection.value("num_key_value_heads") == 8
    (finding,) = inspection.findings
    assert finding.where["tensor"] == "model.layers.0.self_attn.k_proj.weight"
    assert inspection.value("quantization") == {"method": "awq", "bits": 4, "group_size": 128, "format": None}
