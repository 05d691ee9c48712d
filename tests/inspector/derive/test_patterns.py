"""Every spelling of a layer pattern resolves to the same words."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.inspector.derive.configs import read_config
from ropewalk.inspector.derive.gguf_config import read_gguf
from ropewalk.inspector.derive.patterns import layer_words, rotary_flags, shared_flags, unknown_words

LETTERS = {
    "F": "full",
    "S": "sliding",
    "C": "chunked",
    "R": "recurrent",
    "X": "cross",
    "N": "none",
    "H": "hybrid",
}
WINDOW = {"sliding_window": 512}


def spelled(words: list[Any] | None) -> str | None:
    inverse = {word: letter for letter, word in LETTERS.items()}
    return None if words is None else "".join(inverse[word] for word in words)


CONFIGS: list[tuple[dict[str, Any], str | None]] = [
    # Gemma 3 in its four serialisations: list, period, private period, nothing but the class
    (WINDOW | {"layer_types": ["sliding_attention"] * 2 + ["full_attention"]}, "SSF"),
    (WINDOW | {"sliding_window_pattern": 3}, "SSFSSF"),
    (WINDOW | {"_sliding_window_pattern": 3}, "SSFSSF"),
    (WINDOW | {"model_type": "gemma3_text"}, "SSSSSFSSSSSF"),
    ({"model_type": "gemma3", "text_config": WINDOW}, "SSSSSFSS"),
    ({"model_type": "gemma2"}, "SFSF"),
    ({"model_type": "gpt_oss"}, "SFSF"),
    ({"model_type": "olmo3"}, "SSSFSSSF"),
    ({"model_type": "olmo3", "sliding_window": None}, None),
    (WINDOW | {"sliding_window_pattern": "LLLG"}, "SSSFSS"),  # EXAONE 4
    (WINDOW | {"global_attn_every_n_layers": 4}, "SSSFSSSF"),  # AFMoE
    ({"model_type": "modernbert"}, "FSSFSS"),
    (WINDOW | {"hybrid_layer_pattern": [0, 1, 1, 0]}, "FSSF"),  # MiMo
    ({"model_type": "mistral"}, "SSS"),
    ({"model_type": "mistral", "sliding_window": None}, None),
    (WINDOW | {"use_sliding_window": False}, None),
    (WINDOW | {"use_sliding_window": True, "max_window_layers": 2}, "FFSS"),  # Qwen 2
    (WINDOW | {"max_window_layers": 62}, "FFF"),  # dots.llm1
    ({"sliding_window": -1}, None),
    ({"block_types": ["recurrent", "recurrent", "attention"], "attention_window_size": 2048}, "RRSRR"),
    ({"hybrid_override_pattern": "M-M*E"}, "RNRFN"),  # Nemotron-H
    ({"layers_block_type": ["mamba", "moe", "attention", "mlp"]}, "RNFN"),  # Nemotron 3
    ({"layers_block_type": ["mamba", "hybrid"]}, "RH"),  # Zamba 2
    ({"attn_layer_period": 4, "attn_layer_offset": 2}, "RRFRRRFR"),  # Jamba
    ({"model_type": "jamba"}, "RRRRFRRR"),
    ({"attn_layer_indices": [1]}, "RFR"),  # Bamba
    ({"full_attn_idxs": [0, 2]}, "FRF"),  # LFM2
    ({"full_attention_interval": 4, "linear_num_value_heads": 8}, "RRRFRR"),  # Qwen3-Next
    ({"layer_group_size": 4}, "RRRFRRRF"),  # Ring
    ({"linear_attn_config": {"full_attn_layers": [2, 4], "num_heads": 4}}, "RFRF"),  # Kimi, from one
    ({"attn_type_list": [0, 0, 1]}, "RRF"),  # MiniMax
    ({"attn_type_list": [1, 1, 1]}, "FFF"),
    ({"attention_types": [[["global", "local"], 2]], "window_size": 256}, "FSFS"),  # GPT-Neo
    ({"cross_attention_layers": [1, 3]}, "FXFX"),  # Mllama
    ({"attention_chunk_size": 8192, "no_rope_layers": [1, 1, 1, 0]}, "CCCF"),  # Llama 4
    ({"model_type": "llama4", "text_config": {"num_hidden_layers": 5}}, "CCCFC"),
    ({"block_configs": [{"attention": {"no_op": True}}, {"attention": {"n_heads_in_group": 8}}]}, "NF"),
    ({"num_attention_heads": 8}, None),
]


@pytest.mark.parametrize(("config", "expected"), CONFIGS)
def test_patterns_of_configs(config: dict[str, Any], expected: str | None) -> None:
    num_layers = len(expected) if expected else 4
    assert spelled(layer_words(read_config(config), num_layers)) == expected


def gguf(arch: str, keys: dict[str, Any]) -> dict[str, Any]:
    return {"general.architecture": arch, **{f"{arch}.{key}": value for key, value in keys.items()}}


SLIDING = {"attention.sliding_window": 512}
KEYS: list[tuple[str, dict[str, Any], str | None]] = [
    ("gemma3", SLIDING, "SSSSSFS"),
    ("gemma2", SLIDING, "SFSF"),
    ("gpt-oss", SLIDING, "SFSF"),
    ("cohere2moe", SLIDING, "FSSSF"),
    ("gemma3", SLIDING | {"attention.sliding_window_pattern": 3}, "SSF"),
    ("gemma4", SLIDING | {"attention.sliding_window_pattern": [True, False, True]}, "SFS"),
    ("gemma3", {}, None),
    ("llama", SLIDING, None),  # llama.cpp reads no window for this architecture
    ("phi3", SLIDING, None),  # and does not apply it for this one
    ("llama4", {}, "CCCFC"),
    ("llama4", {"attention.sliding_window": 0}, None),
    ("mamba", {"ssm.conv_kernel": 4}, "RR"),
    ("jamba", {"ssm.conv_kernel": 4, "attention.head_count_kv": [0, 8, 0]}, "RFR"),
    (
        "nemotron_h",
        {"ssm.conv_kernel": 4, "attention.head_count_kv": [0, 0, 8], "feed_forward_length": [0, 64, 0]},
        "RNF",
    ),
    ("lfm2", {"shortconv.l_cache": 3, "attention.head_count_kv": [0, 8]}, "RF"),
    ("qwen3next", {"ssm.conv_kernel": 4, "full_attention_interval": 4}, "RRRFR"),
    ("qwen35", {"attention.recurrent_layers": [True, False]}, "RF"),
    ("deci", {"attention.head_count_kv": [8, 0, 4]}, "FNF"),
]


@pytest.mark.parametrize(("arch", "keys", "expected"), KEYS)
def test_patterns_of_gguf_files(arch: str, keys: dict[str, Any], expected: str | None) -> None:
    num_layers = len(expected) if expected else 4
    assert spelled(layer_words(read_gguf(gguf(arch, keys)), num_layers)) == expected


def test_layers_without_rotation() -> None:
    smollm3 = read_config({"model_type": "smollm3"})
    assert rotary_flags(smollm3, 5) == [True, True, True, False, True]
    assert rotary_flags(read_config({"no_rope_layers": [0, 1]}), 2) == [False, True]
    assert rotary_flags(read_gguf(gguf("smollm3", {})), 4) == [True, True, True, False]
    assert rotary_flags(read_config({"model_type": "llama"}), 4) is None


def test_layers_that_share_keys_and_values() -> None:
    gemma = read_config({"num_kv_shared_layers": 2})
    assert shared_flags(gemma, 4) == [False, False, True, True]
    hunyuan = read_config({"use_cla": True, "cla_share_factor": 2})
    assert shared_flags(hunyuan, 4) == [False, True, False, True]
    assert shared_flags(read_config({"use_cla": False, "cla_share_factor": 2}), 2) == [False, False]


def test_an_unknown_word_counts_as_full_and_is_told() -> None:
    settings = read_config({"layer_types": ["full_attention", "wavelet_attention"]})
    assert spelled(layer_words(settings, 2)) == "FF"
    assert unknown_words(settings) == {"wavelet_attention"}


@pytest.mark.parametrize("value", [3, "full", [["x"]], {"a": 1}, [None], [["local"], 3]])
@pytest.mark.parametrize(
    "key", ["layer_types", "attention_types", "no_rope_layers", "attn_layer_indices", "block_configs",
            "linear_attn_config", "hybrid_override_pattern", "attn_type_list", "cross_attention_layers"],
)  # fmt: skip
def test_no_value_of_a_pattern_key_breaks_the_reader(key: str, value: Any) -> None:
    words = layer_words(read_config({key: value, "num_hidden_layers": 3}), 3)
    assert words is None or len(words) == 3
