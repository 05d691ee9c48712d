"""GGUF metadata and config.json of the same model give the same facts and layers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.inspector.made import inspect

from ropewalk.errors import CheckpointError
from ropewalk.inspector.derive.gguf_config import read_gguf
from ropewalk.inspector.records import SkippedArray

# model: (config.json as published, keys below the architecture as llama.cpp's converter writes them)
PAIRS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "Gemma-3-27B": (
        "gemma3",
        {"model_type": "gemma3", "text_config": {
            "model_type": "gemma3_text", "head_dim": 128, "hidden_size": 5376, "intermediate_size": 21504,
            "num_attention_heads": 32, "num_hidden_layers": 62, "num_key_value_heads": 16,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}},
        {"block_count": 62, "embedding_length": 5376, "feed_forward_length": 21504, "context_length": 131072,
         "attention.head_count": 32, "attention.head_count_kv": 16, "attention.key_length": 128,
         "attention.value_length": 128, "attention.sliding_window": 1024, "rope.freq_base": 1e6,
         "rope.scaling.type": "linear", "rope.scaling.factor": 8.0, "vocab_size": 262208},
    ),
    "gpt-oss-20b": (
        "gpt-oss",
        {"model_type": "gpt_oss", "num_hidden_layers": 24, "num_local_experts": 32},
        {"block_count": 24, "embedding_length": 2880, "feed_forward_length": 2880, "context_length": 131072,
         "attention.head_count": 64, "attention.head_count_kv": 8, "attention.key_length": 64,
         "attention.value_length": 64, "attention.sliding_window": 128, "expert_count": 32,
         "expert_used_count": 4, "rope.freq_base": 150000.0, "vocab_size": 201088},
    ),
    "DeepSeek-V3": (
        "deepseek2",
        {"model_type": "deepseek_v3", "max_position_embeddings": 163840, "num_nextn_predict_layers": 1},
        {"block_count": 62, "nextn_predict_layers": 1, "embedding_length": 7168, "feed_forward_length": 18432,
         "context_length": 163840, "attention.head_count": 128, "attention.head_count_kv": 1,
         "attention.key_length": 576, "attention.value_length": 512, "attention.key_length_mla": 192,
         "attention.value_length_mla": 128, "attention.q_lora_rank": 1536, "attention.kv_lora_rank": 512,
         "rope.dimension_count": 64, "rope.freq_base": 10000.0, "expert_count": 256, "expert_used_count": 8,
         "expert_shared_count": 1, "expert_feed_forward_length": 2048, "vocab_size": 129280},
    ),
    "Qwen3-Next-80B": (
        "qwen3next",
        {"model_type": "qwen3_next", "max_position_embeddings": 262144, "rope_theta": 1e7,
         "partial_rotary_factor": 0.25, "full_attention_interval": 4},
        {"block_count": 48, "embedding_length": 2048, "feed_forward_length": 5632, "context_length": 262144,
         "attention.head_count": 16, "attention.head_count_kv": 2, "attention.key_length": 256,
         "attention.value_length": 256, "rope.dimension_count": 64, "rope.freq_base": 1e7,
         "full_attention_interval": 4, "ssm.conv_kernel": 4, "ssm.inner_size": 4096, "ssm.state_size": 128,
         "ssm.time_step_rank": 32, "ssm.group_count": 16, "expert_count": 512, "expert_used_count": 10,
         "expert_feed_forward_length": 512, "vocab_size": 151936},
    ),
    "Mamba-Codestral-7B": (
        "mamba2",
        {"model_type": "mamba2"},
        {"block_count": 64, "embedding_length": 4096, "feed_forward_length": 0, "context_length": 1048576,
         "attention.head_count": 0, "ssm.conv_kernel": 4, "ssm.inner_size": 8192, "ssm.state_size": 128,
         "ssm.time_step_rank": 128, "ssm.group_count": 8, "vocab_size": 32768},
    ),
    "Jamba-v0.1": (
        "jamba",
        {"model_type": "jamba"},
        {"block_count": 32, "embedding_length": 4096, "feed_forward_length": 14336, "context_length": 262144,
         "attention.head_count": 32, "attention.head_count_kv": ([0] * 4 + [8] + [0] * 3) * 4,
         "ssm.conv_kernel": 4, "ssm.inner_size": 8192, "ssm.state_size": 16, "ssm.time_step_rank": 256,
         "expert_count": 16, "expert_used_count": 2, "vocab_size": 65536},
    ),
    "Llama-4-Scout": (
        "llama4",
        {"model_type": "llama4", "text_config": {"model_type": "llama4_text", "rope_theta": 5e5,
                                                 "max_position_embeddings": 10485760}},
        {"block_count": 48, "embedding_length": 5120, "feed_forward_length": 8192, "context_length": 10485760,
         "attention.head_count": 40, "attention.head_count_kv": 8, "attention.key_length": 128,
         "attention.value_length": 128, "rope.freq_base": 5e5, "expert_count": 16, "expert_used_count": 1,
         "vocab_size": 202048},
    ),
    "SmolLM3-3B": (
        "smollm3",
        {"model_type": "smollm3", "max_position_embeddings": 65536, "rope_theta": 5e6},
        {"block_count": 36, "embedding_length": 2048, "feed_forward_length": 11008, "context_length": 65536,
         "attention.head_count": 16, "attention.head_count_kv": 4, "rope.freq_base": 5e6,
         "vocab_size": 128256},
    ),
    "Command-R7B": (
        "cohere2",
        {"model_type": "cohere2", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 132096},
        {"block_count": 32, "embedding_length": 4096, "feed_forward_length": 14336, "context_length": 132096,
         "attention.head_count": 32, "attention.head_count_kv": 8, "attention.key_length": 128,
         "attention.value_length": 128, "attention.sliding_window": 4096, "rope.freq_base": 10000.0,
         "vocab_size": 256000},
    ),
}  # fmt: skip

FACTS = (
    "num_hidden_layers", "hidden_size", "vocab_size", "num_attention_heads", "num_key_value_heads",
    "head_dim", "gqa_ratio", "max_position_embeddings", "native_context", "supported_context", "num_experts",
    "num_experts_per_tok", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
    "position_embedding", "rotary_dim", "mtp_layers",
)  # fmt: skip


def metadata_of(arch: str, keys: dict[str, Any]) -> dict[str, Any]:
    return {"general.architecture": arch, **{f"{arch}.{key}": value for key, value in keys.items()}}


@pytest.mark.parametrize("model", PAIRS)
def test_both_formats_say_the_same(model: str) -> None:
    arch, config, keys = PAIRS[model]
    said, stored = inspect(config), inspect(gguf=metadata_of(arch, keys))
    assert stored.layers == said.layers
    for name in FACTS:
        if name in ("max_position_embeddings", "native_context", "supported_context") and arch == "mamba2":
            continue  # its config states no length
        mine, other = stored.value(name), said.value(name)
        assert (mine or 0) == (other or 0), name
    theta = [inspection.value("rope_theta") for inspection in (said, stored)]
    assert theta[0] == theta[1]


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ({"block_count": "many"}, "llama.block_count"),
        ({"block_count": -1}, "llama.block_count"),
        ({"block_count": 10**9}, "llama.block_count"),
        ({"attention.head_count": SkippedArray("uint32", 10**6)}, "llama.attention.head_count"),
        ({"attention.head_count": [1.5]}, "llama.attention.head_count"),
    ],
)
def test_values_that_are_none_are_named(keys: dict[str, Any], field: str) -> None:
    with pytest.raises(CheckpointError, match=field) as caught:
        read_gguf(metadata_of("llama", keys))
    assert caught.value.code == "config_invalid"


def test_a_file_without_architecture_is_refused() -> None:
    with pytest.raises(CheckpointError, match=r"general\.architecture"):
        read_gguf({"general.name": "x"})


@pytest.mark.parametrize("tokens", [["a"] * 7, SkippedArray("string", 7)])
def test_the_vocabulary_is_counted_where_it_is_not_stated(tokens: Any) -> None:
    metadata = metadata_of("llama", {"block_count": 1}) | {"tokenizer.ggml.tokens": tokens}
    assert read_gguf(metadata).value("vocab_size") == 7


def test_encoders_keep_nothing() -> None:
    metadata = metadata_of("nomic-bert-moe", {"block_count": 2, "attention.causal": False})
    assert [(group.kind, group.count) for group in inspect(gguf=metadata).layers] == [("none", 2)]
