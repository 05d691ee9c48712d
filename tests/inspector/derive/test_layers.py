"""What each kind of layer keeps, for the families whose layers differ; configs as published."""

from __future__ import annotations

from typing import Any

import pytest
from tests.inspector.made import codes, inspect

from ropewalk.inspector.layer_kinds import LayerGroup, StateTensor
from ropewalk.inspector.records import Inspection


def summary(group: LayerGroup) -> tuple[Any, ...]:
    return (
        group.kind,
        group.count,
        group.num_key_value_heads,
        group.head_dim_k,
        group.head_dim_v,
        group.window,
    )


def summaries(inspection: Inspection) -> list[tuple[Any, ...]]:
    return [summary(group) for group in inspection.layers]


def covers_all(inspection: Inspection) -> bool:
    numbers = sorted({index for group in inspection.layers for index in group.indices})
    return numbers == list(range(inspection.value("num_hidden_layers")))


GEMMA4_31B = {
    "model_type": "gemma4",
    "text_config": {
        "model_type": "gemma4_text", "attention_k_eq_v": True, "global_head_dim": 512, "head_dim": 256,
        "hidden_size": 5376, "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10,
        "num_attention_heads": 32, "num_global_key_value_heads": 4, "num_hidden_layers": 60,
        "num_key_value_heads": 16, "num_kv_shared_layers": 0, "sliding_window": 1024,
    },
}  # fmt: skip


def test_gemma_4_has_other_heads_in_its_full_layers() -> None:
    inspection = inspect(GEMMA4_31B)
    assert summaries(inspection) == [("sliding", 50, 16, 256, 256, 1024), ("full", 10, 4, 512, 512, None)]
    assert inspection.value("text_config_key") == "text_config"
    assert inspection.value("head_dim") == 256
    assert inspection.value("global_head_dim") == 512


def test_gemma_4_as_gguf_says_the_same() -> None:
    keys = {
        "block_count": 60, "embedding_length": 5376, "attention.head_count": 32,
        "attention.head_count_kv": ([16] * 5 + [4]) * 10, "attention.key_length": 512,
        "attention.value_length": 512, "attention.key_length_swa": 256, "attention.value_length_swa": 256,
        "attention.sliding_window": 1024, "attention.sliding_window_pattern": ([True] * 5 + [False]) * 10,
        "attention.shared_kv_layers": 0,
    }  # fmt: skip
    metadata = {"general.architecture": "gemma4", **{f"gemma4.{key}": value for key, value in keys.items()}}
    stored, said = inspect(gguf=metadata), inspect(GEMMA4_31B)
    assert summaries(stored) == summaries(said)
    for name in ("head_dim", "global_head_dim", "num_key_value_heads", "gqa_ratio", "sliding_window"):
        assert stored.value(name) == said.value(name)


def test_layers_that_share_a_cache_keep_none() -> None:
    # Gemma 3n E4B: 35 layers, the last 15 read the keys and values of earlier ones; four of five slide.
    inspection = inspect({"model_type": "gemma3n_text"})
    assert summaries(inspection)[:2] == [("sliding", 16, 2, 256, 256, 512), ("full", 4, 2, 256, 256, None)]
    assert [(g.kind, g.count, g.window) for g in inspection.layers[2:]] == [
        ("shared", 12, 512),
        ("shared", 3, None),
    ]
    assert covers_all(inspection)


def test_mimo_has_sizes_of_its_own_where_it_slides() -> None:
    inspection = inspect({
        "model_type": "mimo_v2_flash", "num_hidden_layers": 6, "hidden_size": 4096, "num_attention_heads": 64,
        "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128, "sliding_window": 128,
        "attention_chunk_size": 128, "swa_num_attention_heads": 64, "swa_num_key_value_heads": 8,
        "swa_head_dim": 192, "swa_v_head_dim": 128, "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0],
    })  # fmt: skip
    assert summaries(inspection) == [("full", 2, 4, 192, 128, None), ("sliding", 4, 8, 192, 128, 128)]


def test_nemotron_nas_states_kv_heads_per_block() -> None:
    blocks = [
        {"attention": {"n_heads_in_group": 8, "no_op": False, "replace_with_linear": False}},
        {"attention": {"n_heads_in_group": None, "no_op": True, "replace_with_linear": False}},
        {"attention": {"n_heads_in_group": 16, "no_op": False, "replace_with_linear": False}},
        {"attention": {"n_heads_in_group": None, "no_op": False, "replace_with_linear": True}},
    ]
    inspection = inspect({
        "model_type": "nemotron-nas", "num_hidden_layers": 4, "num_attention_heads": 64, "hidden_size": 8192,
        "num_key_value_heads": None, "block_configs": blocks,
    })  # fmt: skip
    assert summaries(inspection) == [
        ("full", 1, 8, 128, 128, None), ("none", 2, None, None, None, None), ("full", 1, 4, 128, 128, None),
    ]  # fmt: skip


def test_openelm_lists_heads_per_layer() -> None:
    inspection = inspect({
        "model_type": "openelm", "num_transformer_layers": 3, "model_dim": 1280, "head_dim": 64,
        "num_kv_heads": [3, 3, 5], "num_query_heads": [12, 12, 20],
    })  # fmt: skip
    assert [(g.num_attention_heads, g.num_key_value_heads, g.indices) for g in inspection.layers] == [
        (12, 3, (0, 1)), (20, 5, (2,)),
    ]  # fmt: skip


def test_latent_layers_keep_one_row() -> None:
    inspection = inspect({
        "model_type": "deepseek_v3", "num_hidden_layers": 61, "num_attention_heads": 128, "hidden_size": 7168,
        "num_key_value_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
        "v_head_dim": 128, "q_lora_rank": 1536,
    })  # fmt: skip
    (group,) = inspection.layers
    assert summary(group) == ("latent", 61, 1, 576, 0, None)
    assert group.num_attention_heads == 128
    assert [inspection.value(name) for name in ("num_key_value_heads", "head_dim", "v_head_dim")] == [
        128,
        192,
        128,
    ]


def test_indexers_of_their_own_and_shared_ones() -> None:
    config = {
        "model_type": "glm_moe_dsa", "num_hidden_layers": 4, "index_head_dim": 128,
        "indexer_types": ["full", "shared", "shared", "full"],
    }  # fmt: skip
    groups = inspect(config).layers
    assert [(g.kind, g.count, g.head_dim_k, g.indexer_head_dim) for g in groups] == [
        ("latent", 2, 576, 128), ("latent", 2, 576, None),
    ]  # fmt: skip


def test_deepseek_v4_pools_rows() -> None:
    config = {"model_type": "deepseek_v4", "num_hidden_layers": 4, "compress_ratios": [0, 128, 4, 4]}
    groups = inspect(config).layers
    assert [(group.count, group.compress_ratio, group.indexer_head_dim) for group in groups] == [
        (1, None, None), (1, 128, None), (2, 4, 128),
    ]  # fmt: skip
    assert {(group.kind, group.head_dim_k, group.head_dim_v, group.window) for group in groups} == {
        ("latent", 512, 0, 128)
    }


def test_old_gguf_files_of_latent_models_keep_whole_heads() -> None:
    keys = {
        "block_count": 1, "embedding_length": 2048, "attention.head_count": 16, "attention.head_count_kv": 16,
        "attention.key_length": 192, "attention.value_length": 128, "attention.kv_lora_rank": 512,
        "rope.dimension_count": 64,
    }  # fmt: skip
    metadata = {"general.architecture": "deepseek2", **{f"deepseek2.{k}": v for k, v in keys.items()}}
    specs = {
        "token_embd.weight": ("F16", [1000, 2048]),
        "blk.0.attn_kv_a_mqa.weight": ("F16", [576, 2048]),
        "blk.0.attn_kv_a_norm.weight": ("F32", [512]),
        "blk.0.attn_kv_b.weight": ("F16", [16 * 256, 512]),
        "blk.0.attn_q.weight": ("F16", [16 * 192, 2048]),
        "blk.0.attn_output.weight": ("F16", [2048, 16 * 128]),
    }
    inspection = inspect(specs=specs, gguf=metadata)
    assert summaries(inspection) == [("full", 1, 16, 192, 128, None)]
    assert not codes(inspection, "error")


def test_gguf_files_with_split_projections_are_latent() -> None:
    keys = {
        "block_count": 1, "embedding_length": 7168, "attention.head_count": 128, "attention.head_count_kv": 1,
        "attention.key_length": 576, "attention.value_length": 512, "attention.kv_lora_rank": 512,
        "attention.key_length_mla": 192, "attention.value_length_mla": 128, "rope.dimension_count": 64,
    }  # fmt: skip
    metadata = {"general.architecture": "deepseek2", **{f"deepseek2.{k}": v for k, v in keys.items()}}
    specs = {
        "token_embd.weight": ("F16", [1000, 7168]),
        "blk.0.attn_kv_a_mqa.weight": ("F16", [576, 7168]),
        "blk.0.attn_kv_a_norm.weight": ("F32", [512]),
        "blk.0.attn_k_b.weight": ("F16", [128, 512, 128]),
        "blk.0.attn_v_b.weight": ("F16", [128, 128, 512]),
        "blk.0.attn_output.weight": ("F16", [7168, 128 * 128]),
    }
    inspection = inspect(specs=specs, gguf=metadata)
    assert summaries(inspection) == [("latent", 1, 1, 576, 0, None)]
    assert [inspection.value(name) for name in ("num_attention_heads", "num_key_value_heads")] == [128, 128]
    assert not inspection.findings


STATES: list[tuple[dict[str, Any], dict[str, tuple[int, ...]]]] = [
    (  # Qwen3-Next-80B: 1,097,728 bytes at bf16 (vLLM 0.33)
        {"model_type": "qwen3_next", "num_hidden_layers": 4},
        {"conv": (3, 8192), "ssm": (32, 128, 128)},
    ),
    (  # Falcon-Mamba-7B: 311,296 bytes at bf16
        {"model_type": "falcon_mamba", "hidden_size": 4096, "expand": 16, "intermediate_size": 8192},
        {"conv": (3, 8192), "ssm": (8192, 16)},
    ),
    (  # Mamba-Codestral: 2,158,592 bytes at bf16
        {"model_type": "mamba2"},
        {"conv": (3, 8192 + 2 * 8 * 128), "ssm": (128, 64, 128)},
    ),
    ({"model_type": "jamba"}, {"conv": (3, 8192), "ssm": (8192, 16)}),
    (  # Nemotron-Nano-9B-v2
        {"hybrid_override_pattern": "M*", "hidden_size": 4480, "mamba_num_heads": 128, "mamba_head_dim": 80,
         "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4, "num_attention_heads": 40, "head_dim": 128},
        {"conv": (3, 12288), "ssm": (128, 80, 128)},
    ),
    ({"model_type": "lfm2", "hidden_size": 1024, "full_attn_idxs": [1]}, {"conv": (2, 1024)}),
    ({"model_type": "recurrent_gemma"}, {"conv": (3, 2560), "rg_lru": (2560,)}),
    (  # Kimi K3
        {"linear_attn_config": {"full_attn_layers": [2], "kda_layers": [1], "num_heads": 96, "head_dim": 128,
                                "short_conv_kernel_size": 4}, "num_hidden_layers": 2, "kv_lora_rank": 512,
         "qk_rope_head_dim": 64},
        {"conv": (3, 3 * 96 * 128), "ssm": (96, 128, 128)},
    ),
    (  # MiniMax-Text-01
        {"model_type": "minimax_text_01", "attn_type_list": [0, 1], "num_hidden_layers": 2,
         "num_attention_heads": 64, "head_dim": 128, "hidden_size": 6144, "num_key_value_heads": 8},
        {"linear": (64, 128, 128)},
    ),
    (
        {"model_type": "rwkv5", "num_hidden_layers": 2, "hidden_size": 2560, "head_size": 64},
        {"shift": (2, 2560), "wkv": (40, 64, 64)},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("config", "expected"), STATES)
def test_states_of_recurrent_layers(config: dict[str, Any], expected: dict[str, tuple[int, ...]]) -> None:
    inspection = inspect(config)
    group = next(group for group in inspection.layers if group.kind == "recurrent")
    assert {state.name: state.shape for state in group.state} == expected
    assert not codes(inspection, "error")


@pytest.mark.parametrize("shape", [[8192, 1, 4], [8192, 4, 1], [8192, 4]])
def test_widths_of_a_state_from_its_tensors(shape: list[int]) -> None:
    # transformers, MLX and GGUF order the sides of a convolution differently
    specs = {
        "model.layers.0.linear_attn.conv1d.weight": ("BF16", shape),
        "model.layers.0.linear_attn.A_log": ("BF16", [32]),
        "model.layers.0.linear_attn.out_proj.weight": ("BF16", [2048, 4096]),
    }
    config = {"model_type": "qwen3_next", "num_hidden_layers": 1, "linear_conv_kernel_dim": 9}
    (group,) = inspect(config, specs).layers
    assert group.state == (StateTensor("conv", (3, 8192)), StateTensor("ssm", (32, 128, 128)))


def test_a_state_of_unknown_size_is_told() -> None:
    inspection = inspect({"model_type": "new", "layer_types": ["linear_attention", "full_attention"]})
    assert inspection.layers[0].state == ()
    assert "state_unknown" in codes(inspection, "warning")


def test_falcon_h1_attends_and_keeps_a_state_in_every_layer() -> None:
    config = {
        "model_type": "falcon_h1", "hidden_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 64, "mamba_d_ssm": 1536, "mamba_n_heads": 24,
        "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 128,
    }  # fmt: skip
    (group,) = inspect(config).layers
    assert summary(group) == ("full", 2, 2, 64, 64, None)
    assert group.state == (StateTensor("conv", (3, 1792)), StateTensor("ssm", (24, 64, 128)))


def test_encoder_decoders_keep_both_halves() -> None:
    inspection = inspect({
        "model_type": "whisper", "is_encoder_decoder": True, "d_model": 1280, "decoder_layers": 32,
        "encoder_layers": 32, "decoder_attention_heads": 20, "max_source_positions": 1500,
        "max_target_positions": 448,
    })  # fmt: skip
    assert summaries(inspection) == [("full", 32, 20, 64, 64, None), ("cross", 32, 20, 64, 64, None)]
    assert inspection.value("max_position_embeddings") == 448
    assert inspection.value("max_source_positions") == 1500
    assert inspection.value("position_embedding") == "learned"


def test_encoders_keep_nothing() -> None:
    inspection = inspect({"model_type": "bert"})
    assert summaries(inspection) == [("none", 12, None, None, None, None)]
    assert [inspection.value(name) for name in ("num_attention_heads", "head_dim")] == [12, 64]


def test_longcat_keeps_two_rows_per_layer() -> None:
    groups = inspect({"model_type": "longcat_flash"}).layers
    assert [(g.kind, g.count, g.head_dim_k) for g in groups] == [("latent", 28, 576)] * 2


@pytest.mark.parametrize(
    ("config", "position", "rotating"),
    [
        ({"model_type": "cohere2", "num_hidden_layers": 4}, "nope_mixed", [True, False]),
        ({"model_type": "exaone4", "num_hidden_layers": 4}, "nope_mixed", [True, False]),
        ({"model_type": "exaone4", "num_hidden_layers": 4, "sliding_window": None}, "rope", [True]),
        ({"model_type": "smollm3", "num_hidden_layers": 4}, "nope_mixed", [True, False]),
        ({"model_type": "jamba"}, "none", [None, False]),
        ({"model_type": "bloom"}, "alibi", [False]),
        ({"model_type": "mpt", "attn_config": {"alibi": True}}, "alibi", [False]),
        ({"model_type": "baichuan", "hidden_size": 5120, "num_hidden_layers": 2, "num_attention_heads": 40},
         "alibi", [False]),
        ({"model_type": "baichuan", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32},
         "rope", [True]),
        ({"model_type": "t5", "num_layers": 2}, "relative", [False, None]),
        ({"model_type": "granitemoehybrid", "layer_types": ["attention"]}, "none", [False]),
        ({"model_type": "granitemoehybrid", "layer_types": ["attention"], "position_embedding_type": "rope"},
         "rope", [True]),
    ],
)  # fmt: skip
def test_which_layers_rotate(config: dict[str, Any], position: str, rotating: list[bool | None]) -> None:
    inspection = inspect(config)
    assert inspection.value("position_embedding") == position
    assert [group.rotary for group in inspection.layers] == rotating
    if position not in ("rope", "nope_mixed"):
        assert inspection.value("rope_theta") is None


def test_attention_under_unknown_names_keeps_what_is_stated() -> None:
    # better as stated than "keeps nothing" because of names not met before
    config = {"model_type": "new", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
    specs = {
        f"model.layers.{i}.attention.{name}.weight": ("BF16", [64, 64]) for i in (0, 1) for name in ("a", "b")
    }
    assert summaries(inspect(config, specs)) == [("full", 2, 4, 16, 16, None)]
    cut = {"model.layers.0.attention.a.weight": ("BF16", [64, 64]),
           "model.layers.1.mlp.up_proj.weight": ("BF16", [256, 64])}  # fmt: skip
    assert [(group.kind, group.indices) for group in inspect(config, cut).layers] == [
        ("full", (0,)),
        ("none", (1,)),
    ]


def test_one_projection_for_keys_and_values() -> None:
    config = {
        "model_type": "deepseek_v4",
        "num_hidden_layers": 1,
        "compress_ratios": [4],
        "hidden_size": 4096,
    }
    specs = {
        "layers.0.attn.wkv.weight": ("BF16", [512, 4096]),
        "layers.0.attn.wq_a.weight": ("BF16", [1024, 4096]),
        "layers.0.attn.wq_b.weight": ("BF16", [64 * 512, 1024]),
        "layers.0.ffn.gate.weight": ("BF16", [256, 4096]),
        "embed.weight": ("BF16", [129280, 4096]),
    }
    (group,) = inspect(config, specs).layers
    assert (group.kind, group.head_dim_k, group.compress_ratio) == ("latent", 512, 4)


def test_an_indexer_is_one_only_where_its_tensors_are() -> None:
    config = {"model_type": "deepseek_v32", "num_hidden_layers": 2}
    block = {"kv_a_proj_with_mqa": [576, 7168], "kv_a_layernorm": [512], "kv_b_proj": [128 * 256, 512]}
    specs: dict[str, Any] = {
        f"model.layers.{i}.self_attn.{name}.weight": ("BF16", shape)
        for i in (0, 1)
        for name, shape in block.items()
    }
    specs["model.layers.0.self_attn.indexer.wk.weight"] = ("BF16", [128, 7168])
    groups = inspect(config, specs).layers
    assert [(group.indices, group.indexer_head_dim) for group in groups] == [((0,), 128), ((1,), None)]
