"""What shows how a model knows the order of its tokens, and what the record of choices says."""

from __future__ import annotations

from typing import Any

import pytest
from tests.inspector.made import inspect

BLOCK: dict[str, Any] = {
    "model.embed_tokens.weight": ("BF16", [100, 64]),
    "model.layers.0.self_attn.q_proj.weight": ("BF16", [64, 64]),
    "model.layers.0.self_attn.k_proj.weight": ("BF16", [64, 64]),
    "model.layers.0.mlp.up_proj.weight": ("BF16", [256, 64]),
    "model.layers.0.mlp.down_proj.weight": ("BF16", [64, 256]),
}
CONFIG = {"model_type": "new", "num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 4}


def test_a_table_of_positions_is_seen_in_the_tensors() -> None:
    specs = BLOCK | {"model.embed_positions.weight": ("BF16", [2050, 64])}
    fact = inspect(CONFIG, specs).facts["position_embedding"]
    assert (fact.value, fact.source, fact.detail) == ("learned", "tensor", "model.embed_positions.weight")


@pytest.mark.parametrize("tower", ["vision_model.embeddings", "audio_tower", "model.encoder"])
def test_a_table_of_a_tower_is_not_the_language_model_s(tower: str) -> None:
    specs = BLOCK | {f"{tower}.position_embeddings.weight": ("BF16", [576, 64])}
    assert inspect(CONFIG, specs).value("position_embedding") == "rope"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"alibi": True}, "alibi"),
        ({"position_embedding_type": "absolute"}, "learned"),
        ({"position_embedding_type": "nope"}, "none"),
        ({"relative_attention_num_buckets": 32}, "relative"),
        ({"mla_use_nope": True}, "none"),
        ({"no_rope_layers": [1]}, "rope"),
        ({}, "rope"),
    ],
)
def test_keys_that_name_the_kind(more: dict[str, Any], expected: str) -> None:
    assert inspect(CONFIG | more).value("position_embedding") == expected


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        (CONFIG, "decoder only"),
        ({"model_type": "bert"}, "encoder only"),
        ({"model_type": "bart"}, "encoder-decoder"),
    ],
)
def test_shapes_of_models(config: dict[str, Any], shape: str) -> None:
    assert inspect(config).value("model_shape") == shape


def test_feed_forward_and_norm_are_read_from_the_block() -> None:
    two = inspect(CONFIG | {"hidden_act": "gelu", "layer_norm_eps": 1e-5}, BLOCK)
    assert two.value("feed_forward") == "two matrices, gelu"
    assert (two.value("normalisation"), two.facts["normalisation"].detail) == ("LayerNorm", "layer_norm_eps")
    gated = BLOCK | {"model.layers.0.mlp.gate_proj.weight": ("BF16", [256, 64])}
    assert inspect(CONFIG | {"rms_norm_eps": 1e-5}, gated).value("feed_forward") == "gated"
    biased = BLOCK | {"model.layers.0.input_layernorm.bias": ("BF16", [64])}
    assert inspect(CONFIG, biased).facts["normalisation"].detail == "input_layernorm.bias"


def test_a_fused_gate_is_seen_by_its_width() -> None:
    fused = BLOCK | {"model.layers.0.mlp.up_proj.weight": ("BF16", [512, 64])}
    assert inspect(CONFIG, fused).value("feed_forward") == "gated"


def test_experts_that_only_the_class_assumes_are_none() -> None:
    # transformers gives every Nemotron-H eight experts; Nemotron-Nano-9B-v2 stores none
    config = CONFIG | {"model_type": "nemotron_h"}
    stored = inspect(config, BLOCK)
    assert inspect(config).facts["num_experts"].source == "default"
    assert [stored.value(name) for name in ("num_experts", "num_experts_per_tok")] == [None, None]
    assert stored.value("active_parameters") == stored.checkpoint.parameters
