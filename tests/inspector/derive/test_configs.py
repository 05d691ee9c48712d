"""config.json in its many forms: nesting, names, null, values that are none."""

from __future__ import annotations

from typing import Any

import pytest
from tests.inspector.made import codes, inspect

from ropewalk.errors import CheckpointError
from ropewalk.inspector.derive.configs import read_config

SIZES: dict[str, Any] = {"num_hidden_layers": 36, "hidden_size": 2560, "num_attention_heads": 32,
                         "num_key_value_heads": 8, "head_dim": 128}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (SIZES, None),
        (
            {"text_config": SIZES, "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24}},
            "text_config",
        ),
        ({"language_config": SIZES, "num_hidden_layers": 3}, "language_config"),
        ({"llm_config": SIZES}, "llm_config"),
        ({"thinker_config": {"text_config": SIZES, "audio_config": {}}}, "thinker_config.text_config"),
    ],
)
def test_the_language_model_is_found(config: dict[str, Any], key: str | None) -> None:
    settings = read_config(config)
    assert settings.text_config_key == key
    assert {name: settings.value(name) for name in SIZES} == SIZES
    fact = settings.fact("hidden_size")
    assert fact is not None
    assert fact.detail == (f"{key}.hidden_size" if key else "hidden_size")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"n_layer": 12, "n_embd": 768, "n_head": 12}, (12, 768, 12, None)),
        ({"n_layers": 2, "d_model": 4096, "n_heads": 32, "attn_config": {"kv_n_heads": 8}}, (2, 4096, 32, 8)),
        ({"num_layers": 28, "hidden_size": 4096, "num_attention_heads": 32, "multi_query_group_num": 2},
         (28, 4096, 32, 2)),
        ({"n_layer": 60, "hidden_size": 8192, "n_head": 128, "num_kv_heads": 8, "multi_query": True,
          "new_decoder_architecture": True}, (60, 8192, 128, 8)),
        ({"model_type": "falcon", "num_kv_heads": 71, "multi_query": True}, (32, 4544, 71, 1)),
        ({"model_type": "gpt_bigcode", "n_layer": 40, "n_embd": 6144, "n_head": 48}, (40, 6144, 48, 1)),
        ({"d_model": 512, "num_layers": 6, "num_decoder_layers": 8, "num_heads": 8}, (8, 512, 8, None)),
    ],
)  # fmt: skip
def test_names_of_the_same_thing(config: dict[str, Any], expected: tuple[Any, ...]) -> None:
    settings = read_config(config)
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads")
    assert tuple(settings.value(name) for name in names) == expected


def test_null_is_not_absent() -> None:
    absent, null = (
        read_config({"model_type": "mistral"}),
        read_config({"model_type": "mistral", "sliding_window": None}),
    )
    assert (absent.value("sliding_window"), null.value("sliding_window")) == (4096, None)
    absent_fact, null_fact = absent.fact("sliding_window"), null.fact("sliding_window")
    assert absent_fact is not None
    assert null_fact is not None
    assert (absent_fact.source, null_fact.source) == ("default", "config")


def test_published_defaults_fill_what_gemma_3_leaves_out() -> None:
    # google/gemma-3-4b-it states neither heads nor vocabulary
    text = {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
            "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            "sliding_window": 1024}  # fmt: skip
    inspection = inspect({"model_type": "gemma3", "text_config": text})
    assert [(g.kind, g.count, g.num_key_value_heads, g.head_dim_k) for g in inspection.layers] == [
        ("sliding", 29, 4, 256), ("full", 5, 4, 256),
    ]  # fmt: skip
    assert inspection.facts["num_attention_heads"].source == "default"
    assert inspection.value("max_position_embeddings") == 131072
    assert inspection.value("model_type") == "gemma3"


def test_head_size_as_quotient_is_marked_as_assumed() -> None:
    inspection = inspect({"num_hidden_layers": 2, "hidden_size": 4096, "num_attention_heads": 32})
    fact = inspection.facts["head_dim"]
    assert (fact.value, fact.source) == (128, "assumed")
    stated = inspect(
        {"num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 32, "head_dim": 128}
    )
    assert (stated.facts["head_dim"].value, stated.facts["head_dim"].source) == (128, "config")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_hidden_layers", "36"), ("num_hidden_layers", -1), ("num_hidden_layers", 10**9),
        ("hidden_size", 2.5), ("hidden_size", float("inf")), ("vocab_size", [1, 2]),
        ("tie_word_embeddings", "yes"), ("torch_dtype", 16), ("num_attention_heads", True),
        ("num_attention_heads", ["a"]), ("num_key_value_heads", []),
    ],
)  # fmt: skip
def test_a_value_that_is_none_names_file_field_and_value(field: str, value: Any) -> None:
    with pytest.raises(CheckpointError, match=field) as caught:
        read_config(SIZES | {field: value})
    assert caught.value.code == "config_invalid"
    assert caught.value.where["file"] == "config.json"
    assert caught.value.where["field"] == field


def test_an_unknown_model_type_is_an_ordinary_case() -> None:
    plain = inspect(SIZES | {"model_type": "brand_new"})
    assert [(f.code, f.severity) for f in plain.findings] == [("unknown_model_type", "info")]
    special = inspect(SIZES | {"model_type": "brand_new", "mamba_stride": 4})
    assert codes(special, "warning") == ["unknown_model_type"]
    assert special.findings[0].where["unread"] == ["mamba_stride"]
    assert not inspect(SIZES | {"model_type": "qwen3"}).findings


@pytest.mark.parametrize(
    ("limit", "expected"), [(1000000000000000019884624838656, None), (8192, 8192), (None, None), ("x", None)]
)
def test_the_tokenizer_only_advises(limit: Any, expected: int | None) -> None:
    relatives = {"tokenizer_config.json": {"model_max_length": limit}}
    inspection = inspect(SIZES | {"max_position_embeddings": 262144}, relatives=relatives)
    assert inspection.value("tokenizer_limit") == expected
    assert inspection.value("native_context") == 262144
