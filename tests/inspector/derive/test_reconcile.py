"""Lies of configs and of GGUF metadata, each found where the tensors can show it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.inspector.made import QWEN3_8B, codes, inspect, qwen3

SMALL = QWEN3_8B | {"num_hidden_layers": 2, "vocab_size": 2000}


@pytest.mark.parametrize(
    ("field", "lie", "truth"),
    [
        ("hidden_size", 2048, 4096),
        ("intermediate_size", 6144, 12288),
        ("num_attention_heads", 64, 32),
        ("num_key_value_heads", 32, 8),
        ("head_dim", 64, 128),
        ("vocab_size", 4000, 2000),
        ("num_hidden_layers", 3, 2),
        ("num_hidden_layers", 1, 2),
    ],
)
def test_one_lie_gives_one_error_and_the_truth(field: str, lie: int, truth: int) -> None:
    inspection = inspect(SMALL | {field: lie}, qwen3(SMALL))
    errors = [finding for finding in inspection.findings if finding.severity == "error"]
    assert [(f.code, f.where["field"], f.where["config"], f.where["tensors"]) for f in errors] == [
        ("config_tensor_mismatch", field, lie, truth)
    ]
    assert str(lie) in errors[0].message
    assert inspection.value(field) == truth
    assert inspection.facts[field].source == "tensor"


def test_a_wrong_head_size_without_norms_per_head() -> None:
    # both stated numbers of heads fit the shapes with 128: so it is the size that is wrong
    plain = {
        name: spec for name, spec in qwen3(SMALL).items() if "q_norm" not in name and "k_norm" not in name
    }
    inspection = inspect(SMALL | {"head_dim": 256}, plain)
    (finding,) = inspection.findings
    assert (finding.where["field"], finding.where["tensors"]) == ("head_dim", 128)
    assert inspection.value("num_key_value_heads") == 8


def test_padded_vocabularies_are_no_lie() -> None:
    inspection = inspect(SMALL | {"vocab_size": 1990}, qwen3(SMALL))
    assert codes(inspection) == ["vocabulary_padded"]
    assert inspection.value("vocab_size") == 1990


def test_a_class_default_that_does_not_hold_is_a_warning() -> None:
    # transformers 5.24 gives a Qwen2 without num_key_value_heads 32 of them, whatever the tensors say
    config = {"model_type": "qwen2", "hidden_size": 3584, "num_attention_heads": 28, "num_hidden_layers": 1}
    specs = {
        "model.layers.0.self_attn.q_proj.weight": ("BF16", [3584, 3584]),
        "model.layers.0.self_attn.k_proj.weight": ("BF16", [512, 3584]),
    }
    inspection = inspect(config, specs)
    assert codes(inspection, "warning") == ["default_contradicted"]
    assert "would assume 32, the tensors have 4" in inspection.findings[0].message
    assert (inspection.value("num_key_value_heads"), inspection.value("gqa_ratio")) == (4, 7)


def test_null_kv_heads_of_a_llama_are_as_many_as_query_heads() -> None:
    config = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 1,
              "num_key_value_heads": None}  # fmt: skip
    inspection = inspect(config, {"model.layers.0.self_attn.k_proj.weight": ("BF16", [4096, 4096])})
    assert (inspection.value("num_key_value_heads"), inspection.value("gqa_ratio")) == (32, 1)
    assert not inspection.findings


def latent(heads: int = 16) -> dict[str, Any]:
    block = {
        "self_attn.kv_a_proj_with_mqa": [576, 2048], "self_attn.kv_a_layernorm": [512],
        "self_attn.kv_b_proj": [heads * 256, 512], "self_attn.q_proj": [heads * 192, 2048],
        "self_attn.o_proj": [2048, heads * 128], "mlp.gate": [64, 2048],
    }  # fmt: skip
    specs: dict[str, Any] = {
        f"model.layers.0.{name}.weight": ("BF16", shape) for name, shape in block.items()
    }
    for expert in range(64):
        for name, shape in (("up", [1408, 2048]), ("down", [2048, 1408])):
            specs[f"model.layers.0.mlp.experts.{expert}.{name}_proj.weight"] = ("BF16", shape)
    return specs | {"model.embed_tokens.weight": ("BF16", [1000, 2048])}


LATENT: dict[str, Any] = {
    "model_type": "deepseek_v2", "num_hidden_layers": 1, "hidden_size": 2048, "num_attention_heads": 16,
    "num_key_value_heads": 16, "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64, "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408, "intermediate_size": 10944, "vocab_size": 1000,
}  # fmt: skip


@pytest.mark.parametrize(
    "field",
    ["kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "num_attention_heads",
     "num_key_value_heads", "n_routed_experts", "moe_intermediate_size"],
)  # fmt: skip
def test_latent_attention_and_experts_are_held_too(field: str) -> None:
    assert not inspect(LATENT, latent()).findings
    inspection = inspect(LATENT | {field: 2 * LATENT[field]}, latent())
    (finding,) = inspection.findings
    assert (finding.code, finding.where["field"], finding.where["tensors"]) == (
        "config_tensor_mismatch", field, LATENT[field],
    )  # fmt: skip
    assert inspection.layers[0].head_dim_k == 576


def test_experts_are_not_counted_as_active() -> None:
    inspection = inspect(LATENT, latent())
    experts = 64 * 2 * 1408 * 2048
    total = inspection.checkpoint.parameters
    assert total is not None
    assert inspection.value("active_parameters") == total - experts + experts * 6 // 64


def test_mtp_blocks_are_apart_whoever_names_them() -> None:
    numbered = qwen3(SMALL) | {"model.layers.2.eh_proj.weight": ("BF16", [4096, 8192])}
    promised = SMALL | {"num_nextn_predict_layers": 1}
    for config in (SMALL, promised):
        inspection = inspect(config, numbered)
        assert (inspection.value("num_hidden_layers"), inspection.value("mtp_layers")) == (2, 1)
        assert inspection.value("mtp_parameters") == 4096 * 8192
        assert inspection.weights is not None
        assert inspection.weights.mtp == 2 * 4096 * 8192
        assert not inspection.findings
    unnamed = qwen3(SMALL) | {"model.layers.2.mlp.up_proj.weight": ("BF16", [12288, 4096])}
    assert inspect(promised, unnamed).value("mtp_layers") == 1
    assert codes(inspect(SMALL, unnamed), "error") == ["config_tensor_mismatch"]


def test_promised_mtp_blocks_that_are_absent() -> None:
    inspection = inspect(SMALL | {"mtp_num_hidden_layers": 1}, qwen3(SMALL))
    assert codes(inspection) == ["config_tensor_mismatch"]
    assert inspection.findings[0].severity == "warning"
    assert (inspection.value("num_hidden_layers"), inspection.value("mtp_layers")) == (2, 0)


def test_another_dtype_than_stated() -> None:
    inspection = inspect(SMALL | {"torch_dtype": "float16"}, qwen3(SMALL))
    assert [(f.severity, f.where["field"]) for f in inspection.findings] == [("warning", "torch_dtype")]
    assert inspection.value("dtype") == "bfloat16"


def test_quantised_weights_that_the_config_does_not_mention() -> None:
    specs = qwen3(SMALL)
    del specs["model.layers.0.mlp.up_proj.weight"]
    specs |= {
        "model.layers.0.mlp.up_proj.qweight": ("I32", [512, 12288]),
        "model.layers.0.mlp.up_proj.scales": ("F16", [32, 12288]),
        "model.layers.0.mlp.up_proj.qzeros": ("I32", [32, 1536]),
    }
    assert [f.where["field"] for f in inspect(SMALL, specs).findings] == ["quantization_config"]
    said = SMALL | {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}
    assert not inspect(said, specs).findings
    assert [f.where["config"] for f in inspect(said, qwen3(SMALL)).findings] == ["gptq"]


def test_gguf_metadata_is_held_against_the_tensors() -> None:
    keys = {"block_count": 2, "embedding_length": 64, "feed_forward_length": 128, "attention.head_count": 8,
            "attention.head_count_kv": 4, "attention.key_length": 8, "context_length": 512}  # fmt: skip
    block = {"attn_norm": [64], "attn_q": [64, 64], "attn_k": [16, 64], "attn_v": [16, 64],
             "attn_output": [64, 64], "ffn_down": [64, 128]}  # fmt: skip
    specs: dict[str, Any] = {"token_embd.weight": ("F16", [100, 64])}
    for layer in range(2):
        specs |= {f"blk.{layer}.{name}.weight": ("F16", shape) for name, shape in block.items()}
    metadata = {"general.architecture": "llama", **{f"llama.{key}": value for key, value in keys.items()}}
    inspection = inspect(specs=specs, gguf=metadata)
    (finding,) = inspection.findings
    assert (finding.where["field"], finding.where["gguf"], finding.where["tensors"]) == (
        "llama.attention.head_count_kv", 4, 2,
    )  # fmt: skip
    assert inspection.value("num_key_value_heads") == 2
