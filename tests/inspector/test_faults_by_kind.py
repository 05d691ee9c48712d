"""Faults that whole kinds of checkpoints shared, each held by the values of a published or built model.

Values: transformers 5.24 on the meta device, the model cards and the reports that the comments name.
"""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.fuzz import run
from tests.inspector.made import Specs, codes, inspect

from ropewalk.errors import CheckpointError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.caches import CacheType
from ropewalk.planner.layers_cache import LogicalCache, logical_cache
from ropewalk.planner.model import shape_of

BF16 = CacheType("bf16", 1, 2)
DENSE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512,
        "intermediate_size": 1024,
    "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64,
    "vocab_size": 1000, "max_position_embeddings": 4096, "tie_word_embeddings": True,
}  # fmt: skip


def cache(inspection: Inspection, context_len: int) -> LogicalCache:
    shape = shape_of(inspection)
    return logical_cache(shape.layers, context_len=context_len, key=BF16, value=BF16, encoder_len=None)


def attention(**tensors: tuple[str, list[int]]) -> Specs:
    """One block with these tensors of its attention, and an embedding."""
    block = {f"model.layers.0.self_attn.{name.replace('__', '.')}": spec for name, spec in tensors.items()}
    return {"model.embed_tokens.weight": ("BF16", [1000, 512]), **block}


# --- heads ------------------------------------------------------------------------------------------------


def test_a_norm_over_all_heads_is_not_the_size_of_one() -> None:
    """MiniMax-M2: q_norm [6144] = 48 x 128, k_norm [1024] = 8 x 128 (vllm-project/vllm#35932)."""
    config = {"model_type": "minimax_m2", "hidden_size": 3072, "num_hidden_layers": 1, "vocab_size": 1000,
              "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128}  # fmt: skip
    specs = {
        f"model.layers.0.self_attn.{name}.weight": ("BF16", shape)
        for name, shape in {"q_proj": [6144, 3072], "k_proj": [1024, 3072], "v_proj": [1024, 3072],
                            "o_proj": [3072, 6144], "q_norm": [6144], "k_norm": [1024]}.items()
    }  # fmt: skip
    inspection = inspect(config, specs)
    assert [inspection.value(name) for name in ("num_attention_heads", "num_key_value_heads",
        "head_dim")] == [
        48, 8, 128,
    ]  # fmt: skip
    assert codes(inspection, "error") == []


def test_one_key_head_may_have_a_norm_as_wide_as_the_keys() -> None:
    specs = attention(q_proj__weight=("BF16", [512, 512]), k_proj__weight=("BF16", [64, 512]),
                      q_norm__weight=("BF16", [64]), k_norm__weight=("BF16", [64]))  # fmt: skip
    inspection = inspect({**DENSE, "num_hidden_layers": 1, "num_key_value_heads": 1, "head_dim": None}, specs)
    assert (inspection.value("head_dim"), inspection.value("num_key_value_heads")) == (64, 1)


def test_per_layer_settings_of_transformers_5_15() -> None:
    """Gemma 4 26B-A4B saved again: two KV heads of 512 in the full layers (transformers#47384)."""
    config = {
        "model_type": "gemma4",
        "text_config": {
            "model_type": "gemma4_text", "hidden_size": 2816, "num_hidden_layers": 6,
                "num_attention_heads": 16,
            "num_key_value_heads": 8, "head_dim": 256, "sliding_window": 1024, "vocab_size": 262144,
            "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
            "per_layer_config": {"05": {"head_dim": 512, "num_key_value_heads": 2}},
        },
    }  # fmt: skip
    sliding, full = inspect(config).layers
    assert (sliding.num_key_value_heads, sliding.head_dim_k) == (8, 256)
    assert (full.num_key_value_heads, full.head_dim_k) == (2, 512)


def test_step_3_5_names_its_heads_in_its_own_way() -> None:
    """KV heads are attention groups; sliding layers have 96 query heads, full ones rotate half of a head."""
    config = {
        "model_type": "step3p5", "hidden_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 64,
        "num_attention_groups": 8, "head_dim": 128, "vocab_size": 128896, "moe_top_k": 8,
            "moe_num_experts": 288,
        "layer_types": ["full_attention"] + ["sliding_attention"] * 3, "sliding_window": 512,
        "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_heads": 96,
                                    "num_attention_groups": 8, "head_dim": 128},
        "rope_theta": [5e6, 1e4, 1e4, 1e4], "partial_rotary_factors": [0.5, 1.0, 1.0, 1.0],
    }  # fmt: skip
    inspection = inspect(config)
    full, sliding = inspection.layers
    assert (full.num_attention_heads, sliding.num_attention_heads) == (64, 96)
    assert [inspection.value(name) for name in ("num_key_value_heads", "num_experts_per_tok",
        "rotary_dim")] == [
        8, 8, 64,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "field"),
    [("n_embed", "hidden_size"), ("embed_dim", "hidden_size"), ("emb_dim", "hidden_size"),
     ("embedding_dim", "hidden_size"), ("attention_heads", "num_attention_heads"),
     ("decoder_num_attention_heads", "num_attention_heads"), ("layers", "num_hidden_layers"),
     ("num_blocks", "num_hidden_layers"), ("n_words", "vocab_size"), ("n_token", "vocab_size"),
     ("decoder_num_key_value_heads", "num_key_value_heads"), ("num_attention_groups", "num_key_value_heads")],
)  # fmt: skip
def test_every_attribute_map_of_transformers_is_read(key: str, field: str) -> None:
    config = {name: value for name, value in DENSE.items() if name != field}
    inspection = inspect({**config, key: DENSE[field]})
    assert inspection.value(field) == DENSE[field]
    assert inspection.facts[field].detail == key


def test_bloom_176b_by_its_old_key() -> None:
    inspection = inspect(
        {
            "model_type": "bloom",
            "n_embed": 14336,
            "n_layer": 70,
            "num_attention_heads": 112,
            "vocab_size": 250880,
        }
    )
    assert (inspection.value("hidden_size"), inspection.value("head_dim")) == (14336, 128)


def test_a_language_model_under_an_unknown_key_is_found() -> None:
    """VibeVoice-1.5B: ``decoder_config``; 28 layers x 2 x 2 heads x 128 x 2 B."""
    qwen = {"model_type": "qwen2", "hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12,
            "num_key_value_heads": 2, "vocab_size": 151936, "intermediate_size": 8960}  # fmt: skip
    inspection = inspect(
        {"model_type": "vibevoice", "decoder_config": qwen, "diffusion_head_config": {"a": 1}}
    )
    assert inspection.value("text_config_key") == "decoder_config"
    assert cache(inspection, 1).token_bytes == 28672


# --- caches -----------------------------------------------------------------------------------------------


def test_looped_models_keep_a_cache_for_every_pass() -> None:
    """Ouro-2.6B: 48 layers, four times (ml-explore/mlx-lm#599)."""
    ouro = {"model_type": "ouro", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 16,
            "num_key_value_heads": 16, "head_dim": 128, "vocab_size": 49152, "total_ut_steps": 4}  # fmt: skip
    assert cache(inspect(ouro), 1).token_bytes == 1_572_864


def test_a_loop_over_some_layers() -> None:
    """Inkling 2 loop: 12 of 24 layers three times, 48 caches of 64 tokens; and each its convolutions."""
    config = {
        "model_type": "inkling2_loop_text", "hidden_size": 2304, "num_hidden_layers": 24,
            "vocab_size": 201024,
        "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128, "conv_kernel_size": 4,
            "d_rel": 16,
        "layer_types": (["hybrid_sliding"] * 5 + ["hybrid"]) * 4, "sliding_window_size": 1024,
        "loop_layer_index_start": 6, "loop_layer_index_end": 18, "loop_num_passes": 3,
    }  # fmt: skip
    inspection = inspect(config)
    found = cache(inspection, 64)
    assert found.kv_bytes == 12_582_912
    assert found.state_elements == 48 * 3 * (2 * 8 * 128 + 2 * 2304)
    assert inspection.value("position_embedding") == "relative"


def test_a_latent_row_without_a_rotated_part() -> None:
    """GLM-5-next: ``qk_rope_head_dim: 0`` is a value; 11 layers x 512 x 2 B, not every head's keys."""
    config = {"model_type": "glm5_next_text", "hidden_size": 4096, "num_hidden_layers": 11,
        "vocab_size": 154880,
              "num_attention_heads": 64, "num_key_value_heads": 64, "kv_lora_rank": 512,
                  "qk_rope_head_dim": 0,
              "qk_nope_head_dim": 256, "v_head_dim": 256}  # fmt: skip
    assert cache(inspect(config), 1).token_bytes == 11_264


def test_only_some_layers_own_pooled_rows() -> None:
    """DeepSeek-V4.1-Flash: 2,560 B a token of four owners,
    and 40 windows of 128 (vllm-project/recipes#959)."""
    config = {
        "model_type": "deepseek_v41_text", "hidden_size": 5120, "num_hidden_layers": 40, "vocab_size": 129280,
        "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512, "qk_rope_head_dim": 64,
        "sliding_window": 128, "compress_ratios": [0, 0, *[2] * 18, *[1] * 20], "index_head_dim": 128,
        "kv_source_layer_ids": [2, 8, 14, 20], "index_source_layer_ids": [2, 8, 14, 20, 24, 28, 32, 36],
    }  # fmt: skip
    assert cache(inspect(config), 131072).kv_bytes == 340_787_200


def test_deepseek_v4_says_the_same_in_both_spellings() -> None:
    """``compress_ratios`` as published, ``compress_rates`` by type of layer as transformers 5.15 saves it."""
    base = {"model_type": "deepseek_v4", "hidden_size": 4096, "num_hidden_layers": 4,
        "num_attention_heads": 64,
            "num_key_value_heads": 1, "head_dim": 512, "sliding_window": 128, "index_head_dim": 128,
            "vocab_size": 129280, "qk_rope_head_dim": 64}  # fmt: skip
    types = ["sliding_attention", "heavily_compressed_attention", "compressed_sparse_attention",
             "heavily_compressed_attention"]  # fmt: skip
    rates = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    published = inspect({**base, "compress_ratios": [0, 128, 4, 128]})
    saved = inspect({**base, "layer_types": types, "compress_rates": rates})
    assert published.layers == saved.layers
    assert cache(published, 131072) == cache(saved, 131072)


def test_kimi_linear_in_the_spelling_of_transformers_5() -> None:
    """A state of 32 x 128 x 128 and three convolutions in 21 layers, 576 wide rows in 6, and no rotation."""
    config = {
        "model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 27, "num_attention_heads": 32,
        "num_key_value_heads": 32, "head_dim": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
            "vocab_size": 163840,
        "qk_nope_head_dim": 128, "v_head_dim": 128, "linear_num_heads": 32, "linear_head_dim": 128,
        "linear_conv_kernel_dim": 4, "transformers_version": "5.24.0",
        "layer_types": [*(["linear_attention"] * 3 + ["full_attention"]) * 6, *["linear_attention"] * 3],
    }  # fmt: skip
    inspection = inspect(config)
    found = cache(inspection, 64)
    assert found.kv_bytes == 442_368
    assert found.state_elements == 21 * (32 * 128 * 128 + 3 * 3 * 4096)
    assert inspection.value("position_embedding") == "none"


def test_xlstm_keeps_a_matrix_per_head() -> None:
    config = {"model_type": "xlstm", "embedding_dim": 4096, "num_blocks": 32, "num_heads": 8,
        "vocab_size": 50304,
              "qk_dim_factor": 0.5, "v_dim_factor": 1.0}  # fmt: skip
    inspection = inspect(config)
    found = cache(inspection, 131072)
    assert (found.token_bytes, found.state_elements) == (0, 32 * 8 * (256 * 512 + 256 + 1))


# --- positions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model_type", "positions"),
    [("zamba", "none"), ("zamba2", "none"), ("kimi_linear", "none"), ("inkling_text", "relative"),
     ("xlstm", "none"), ("xglm", "sinusoidal"), ("m2m_100", "sinusoidal"), ("nllb-moe", "sinusoidal"),
     ("led", "learned"), ("llama", "rope")],
)  # fmt: skip
def test_rotation_is_not_assumed_where_the_class_has_none(model_type: str, positions: str) -> None:
    assert inspect({**DENSE, "model_type": model_type}).value("position_embedding") == positions


def test_a_config_saved_by_transformers_5_names_its_rotation() -> None:
    saved = {**DENSE, "model_type": "new_one", "transformers_version": "5.24.0"}
    assert inspect(saved).value("position_embedding") == "none"
    assert inspect({**saved, "rope_parameters": {"rope_theta": 1e4}}).value("position_embedding") == "rope"
    assert inspect({**saved, "transformers_version": "4.57.1"}).value("position_embedding") == "rope"


def test_zamba_2_rotates_where_it_says_so() -> None:
    config = {**DENSE, "model_type": "zamba2", "use_mem_rope": True, "layers_block_type": ["m", "g"]}
    assert inspect(config).value("position_embedding") == "rope"


# --- packings ---------------------------------------------------------------------------------------------


def test_bitnet_packs_four_rows_into_one() -> None:
    """bitnet-b1.58-2B-4T: k_proj U8 [160, 2560] is 5 heads x 128 (huggingface/transformers#37503)."""
    config = {
        "model_type": "bitnet",
        "hidden_size": 2560,
        "num_hidden_layers": 1,
        "num_attention_heads": 20,
        "num_key_value_heads": 5,
        "vocab_size": 1000,
        "quantization_config": {"quant_method": "bitnet"},
    }
    specs: dict[str, Any] = {}
    for name, rows in (("q", 640), ("k", 160), ("v", 160), ("o", 640)):
        specs[f"model.layers.0.self_attn.{name}_proj.weight"] = ("U8", [rows, 2560])
        specs[f"model.layers.0.self_attn.{name}_proj.weight_scale"] = ("BF16", [1])
    inspection = inspect(config, specs)
    assert (inspection.value("head_dim"), inspection.value("num_key_value_heads")) == (128, 5)
    assert inspection.checkpoint.parameters == 2560 * (2560 + 640) * 2
    assert codes(inspection, "error") == []


def test_mlx_widths_differ_by_module() -> None:
    """gpt-oss-20b-MXFP4-Q8: experts in groups of 32,
    all else 8 bits in groups of 64 (Blaizzy/mlx-vlm#1703)."""
    config = {**DENSE, "num_hidden_layers": 1, "quantization": {
        "bits": 4, "group_size": 32, "mode": "mxfp4",
        "model.layers.0.self_attn.q_proj": {"bits": 8, "group_size": 64},
    }}  # fmt: skip
    specs = attention(q_proj__weight=("U32", [512, 128]), q_proj__scales=("BF16", [512, 8]),
                      q_proj__biases=("BF16", [512, 8]), k_proj__weight=("U32", [128, 64]),
                      k_proj__scales=("U8", [128, 16]))  # fmt: skip
    inspection = inspect(config, specs)
    assert inspection.checkpoint.parameters == 1000 * 512 + 512 * 512 + 128 * 512
    assert codes(inspection, "error") == []


@pytest.mark.parametrize(
    "stored",
    [
        {"k_proj.trellis": ("I16", [32, 8, 64]), "k_proj.suh": ("F16", [512]), "k_proj.svh": ("F16", [128])},
        {"k_proj.qweight": ("I32", [128, 64]), "k_proj.qzeros": ("I32", [128, 1]),
         "k_proj.scales": ("F16", [128, 8])},
        {"k_proj.qweight": ("U8", [128, 256]), "k_proj.scales": ("U8", [128, 16])},
        {"k_proj._weight_qdata": ("U8", [128, 256]), "k_proj._weight_scale": ("BF16", [4, 128]),
         "k_proj._weight_zero_point": ("BF16", [4, 128])},
        {"k_proj.B": ("I32", [32, 256]), "k_proj.s": ("F16", [4, 128])},
        {"k_proj.B_24": ("I32", [16, 256]), "k_proj.B_meta": ("I16", [128, 32]), "k_proj.s": ("F16", [4,
            128])},
        {"k_proj.codes": ("I16", [128, 64, 1]), "k_proj.codebooks": ("F16", [1, 65536, 1, 8]),
         "k_proj.scales": ("F16", [128, 1, 1, 1])},
        {"k_proj.q_weight": ("I32", [70, 128]), "k_proj.q_invperm": ("I16", [512]),
         "k_proj.q_scale": ("I32", [4, 16]), "k_proj.q_groups": ("I16", [8])},
        {"k_proj.weight": ("I8", [64, 512]), "k_proj.weight_scale": ("F32", [128, 1])},
        {"k_proj.weight_packed": ("I32", [128, 128]), "k_proj.weight_scale": ("BF16", [128, 4])},
    ],
    ids=["EXL3", "AWQ gemv", "fp_quant", "torchao", "Marlin", "Marlin 2:4", "AQLM", "EXL2", "Ascend W4A8",
         "compressed-tensors, second group"],
)  # fmt: skip
def test_a_matrix_of_128_by_512_in_each_packing(stored: dict[str, tuple[str, list[int]]]) -> None:
    groups = {
        "a": {"weights": {"num_bits": 4, "group_size": 128}},
        "b": {"weights": {"num_bits": 8, "group_size": 128}},
    }
    method = {"quant_method": "made", "bits": 4, "group_size": 128, "config_groups": groups}
    specs = {f"model.layers.0.self_attn.{name}": spec for name, spec in stored.items()}
    inspection = inspect({**DENSE, "num_hidden_layers": 1, "quantization_config": method}, specs)
    assert inspection.checkpoint.parameters == 128 * 512
    assert (inspection.value("num_key_value_heads"), codes(inspection, "error")) == (2, [])


def test_a_doubted_packing_keeps_the_configs_heads_and_says_so() -> None:
    specs = attention(k_proj__weight=("U8", [64, 512]), q_proj__weight=("U8", [256, 512]))
    inspection = inspect(
        {**DENSE, "num_hidden_layers": 1, "quantization_config": {"quant_method": "new"}}, specs
    )
    assert inspection.value("num_key_value_heads") == 2
    (finding, *_) = [f for f in inspection.findings if f.code == "config_tensor_mismatch"]
    assert (finding.severity, finding.where["doubted"]) == ("warning", "tensors")


def test_plain_tensors_are_still_believed() -> None:
    specs = attention(k_proj__weight=("BF16", [64, 512]), q_proj__weight=("BF16", [512, 512]),
                      o_proj__weight=("BF16", [512, 512]))  # fmt: skip
    inspection = inspect({**DENSE, "num_hidden_layers": 1}, specs)
    assert inspection.value("num_key_value_heads") == 1
    assert codes(inspection, "error") == ["config_tensor_mismatch"]


# --- counts and ties --------------------------------------------------------------------------------------


def test_a_table_of_integers_does_not_blank_the_count() -> None:
    specs = {
        **attention(q_proj__weight=("BF16", [512, 512])),
        "model.layers.0.mlp.gate.tid2eid": ("I64", [1000, 6]),
    }
    assert inspect({**DENSE, "num_hidden_layers": 1}, specs).checkpoint.parameters == 1000 * 512 + 512 * 512


def test_lm_head_dense_is_not_the_tied_head() -> None:
    specs = {**attention(q_proj__weight=("BF16", [512, 512])), "lm_head.dense.weight": ("BF16", [512, 512])}
    assert (
        inspect({**DENSE, "num_hidden_layers": 1}, specs).checkpoint.parameters == 1000 * 512 + 2 * 512 * 512
    )


def test_the_wrappers_tie_governs() -> None:
    text = {**DENSE, "num_hidden_layers": 1, "tie_word_embeddings": False}
    wrapper = {"architectures": ["XForConditionalGeneration"], "model_type": "llava", "text_config": text}
    specs = attention(q_proj__weight=("BF16", [512, 512]))
    assert "lm_head_missing" in codes(inspect(wrapper, specs))
    tied = inspect({**wrapper, "tie_word_embeddings": True}, specs)
    assert (tied.value("tie_word_embeddings"), codes(tied, "error")) == (True, [])


def test_an_embedding_narrower_than_the_blocks() -> None:
    """ELECTRA: 128 beside 256, with a projection between them."""
    config = {"model_type": "electra", "hidden_size": 512, "embedding_size": 128, "num_hidden_layers": 1,
              "num_attention_heads": 8, "vocab_size": 1000}  # fmt: skip
    specs = {"electra.embeddings.word_embeddings.weight": ("BF16", [1000, 128]),
             "electra.embeddings_project.weight": ("BF16", [512, 128]),
             "electra.encoder.layer.0.attention.self.query.weight": ("BF16", [512, 512])}  # fmt: skip
    inspection = inspect(config, specs)
    assert (inspection.value("hidden_size"), codes(inspection, "error")) == (512, [])


# --- lengths ----------------------------------------------------------------------------------------------


def test_dual_chunk_attention_was_trained_for_its_original_length() -> None:
    block = {"chunk_size": 262144, "local_size": 8192, "original_max_position_embeddings": 262144}
    config = {**DENSE, "max_position_embeddings": 1_010_000, "dual_chunk_attention_config": block}
    inspection = inspect(config)
    assert (inspection.value("native_context"), inspection.value("supported_context")) == (262144, 262144)


def test_hunyuans_alpha_reaches_256k() -> None:
    config = {**DENSE, "model_type": "hunyuan_v1_moe", "max_position_embeddings": 32768,
        "rope_theta": 10000.0,
              "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}}  # fmt: skip
    assert inspect(config).value("supported_context") == 262144
    other = {**config, "rope_scaling": {"type": "dynamic", "alpha": 50.0, "factor": 1.0}}
    assert inspect(other).value("supported_context") == 32768


@pytest.mark.parametrize(("intermediate", "described"), [(5472, 1048576), (6144, 262144)])
def test_qwen3_coder_30b_is_not_the_2507_series(intermediate: int, described: int) -> None:
    config = {"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48,
        "num_attention_heads": 32,
              "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": intermediate,
                  "vocab_size": 151936,
              "max_position_embeddings": 262144, "rope_theta": 1e7}  # fmt: skip
    inspection = inspect(config)
    assert (inspection.value("native_context"), inspection.value("supported_context")) == (262144, described)


# --- bad input --------------------------------------------------------------------------------------------


def test_nan_and_infinity_do_not_reach_the_record() -> None:
    config = {
        **DENSE,
        "quantization_config": {"quant_method": "x", "bits": float("nan"), "group_size": float("inf")},
    }
    value = inspect(config).value("quantization")
    assert (value["bits"], value["group_size"]) == (None, None)


@pytest.mark.parametrize("key", ["max_position_embeddings", "context_length"])
def test_a_length_of_nothing_is_none(key: str) -> None:
    found = inspect({**{k: v for k, v in DENSE.items() if k != "max_position_embeddings"}, key: 0})
    assert (found.value("max_position_embeddings"), found.value("native_context")) == (None, None)


def test_a_state_of_nothing_is_unknown() -> None:
    specs = {
        "model.layers.0.mamba.A_log": ("F32", (4,)),
        "model.layers.0.mamba.conv1d.weight": ("BF16", (2,)),
    }
    found = inspect({**DENSE, "model_type": "nemotron_h", "hybrid_override_pattern": "M*"}, specs)
    assert [group.state for group in found.layers if group.kind == "recurrent"] == [()]
    assert "state_unknown" in {finding.code for finding in found.findings}


def test_configs_and_shapes_at_random_give_a_record_or_an_error() -> None:
    """benchmarks/fuzz.py does the same with 200,000."""
    assert sum(run("checkpoint", count=1500, seed=3).values()) == 1500


# --- messages ---------------------------------------------------------------------------------------------


def test_an_importance_matrix_is_named_as_one() -> None:
    with pytest.raises(CheckpointError, match="importance matrix") as caught:
        inspect(gguf={"general.type": "imatrix", "imatrix.chunk_count": 100})
    assert caught.value.code == "imatrix_only"


def test_a_plan_of_an_adapter_names_its_base_model() -> None:
    specs = {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": ("F32", [8, 512])}
    relatives = {"adapter_config.json": {"peft_type": "LORA", "base_model_name_or_path": "ORG/BASE"}}
    adapter = inspect({}, specs, relatives=relatives)
    with pytest.raises(CheckpointError, match="is an adapter: plan its base model ORG/BASE"):
        shape_of(adapter)


def test_a_null_head_size_beside_another_quotient() -> None:
    """Engines derive 160 and fail; the tensors say 128 (Mistral Small's kind)."""
    config = {
        **DENSE,
        "hidden_size": 5120,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": None,
        "num_hidden_layers": 1,
    }
    specs = {
        f"model.layers.0.self_attn.{name}_proj.weight": ("BF16", shape)
        for name, shape in {
            "q": [4096, 5120],
            "k": [1024, 5120],
            "v": [1024, 5120],
            "o": [5120, 4096],
        }.items()
    }
    (finding,) = [f for f in inspect(config, specs).findings if f.code == "config_tensor_mismatch"]
    assert (finding.severity, finding.where["derived"], finding.where["tensors"]) == ("error", 160, 128)


def test_a_factor_on_top_of_a_raised_length() -> None:
    block = {"type": "linear", "factor": 4.0}
    config = {**DENSE, "max_position_embeddings": 16384, "original_max_position_embeddings": 4096}
    assert "context_scaled_twice" in codes(inspect({**config, "rope_scaling": block}))
    assert "context_scaled_twice" not in codes(inspect({**DENSE, "rope_scaling": block}))


def test_a_transformer_that_blocks_share_is_stored_once_and_cached_in_each() -> None:
    """Zamba2: transformers 5.24 saves a shared block in the first hybrid layer alone; each layer caches."""
    config = {**DENSE, "model_type": "zamba2", "num_hidden_layers": 4, "num_mem_blocks": 1,
              "layers_block_type": ["hybrid", "linear_attention", "hybrid", "hybrid"],
              "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "n_mamba_heads": 8,
              "mamba_headdim": 128, "mamba_ngroups": 1}  # fmt: skip
    state = {
        "mamba.A_log": [8], "mamba.D": [8], "mamba.dt_bias": [8], "mamba.conv1d.weight": [1056, 1, 4],
        "mamba.in_proj.weight": [2088, 512], "mamba.out_proj.weight": [512, 1024],
    }  # fmt: skip
    specs: dict[str, tuple[str, list[int]]] = {"model.embed_tokens.weight": ("BF16", [1000, 512])}
    for layer in range(4):
        inner = "" if layer == 1 else "mamba_decoder."
        specs |= {f"model.layers.{layer}.{inner}{name}": ("BF16", shape) for name, shape in state.items()}
    for name, rows in {"q_proj": 512, "k_proj": 128, "v_proj": 128, "o_proj": 512}.items():
        specs[f"model.layers.0.shared_transformer.self_attn.{name}.weight"] = ("BF16", [rows, 512])
    inspection = inspect(config, specs)
    assert [(group.kind, group.indices) for group in inspection.layers] == [
        ("full", (0, 2, 3)), ("recurrent", (1,)),
    ]  # fmt: skip
    assert cache(inspection, 64).kv_bytes == 64 * 3 * 2 * 128 * 2


def test_a_decoder_beside_its_encoder_is_the_language_model() -> None:
    """Dia states both halves in blocks of their own (transformers 5.24, configuration_dia.py)."""
    half = {"num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4, "vocab_size": 1000}
    found = inspect(
        {"model_type": "dia", "encoder_config": half, "decoder_config": {**half, "num_hidden_layers": 6}}
    )
    assert found.value("num_hidden_layers") == 6
    assert found.value("text_config_key") == "decoder_config"
