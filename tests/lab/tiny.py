"""Tiny checkpoints of the families that attend runs, their weights from a formula: the same everywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import prod, sin
from pathlib import Path
from struct import pack
from typing import Any

TOKENS = (3, 14, 15, 9, 26, 5)
_COMMON: dict[str, Any] = {
    "hidden_act": "silu", "hidden_size": 24, "intermediate_size": 40, "max_position_embeddings": 64,
    "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-05,
    "vocab_size": 32,
}  # fmt: skip
QWEN3: dict[str, Any] = {
    **_COMMON, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 8,
    "tie_word_embeddings": True, "rope_theta": 100.0, "rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "truncate": True,
    },
}  # fmt: skip
QWEN2: dict[str, Any] = {
    **_COMMON, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "tie_word_embeddings": False,
    "rope_theta": 10000.0,
}  # fmt: skip
MISTRAL: dict[str, Any] = {
    **_COMMON, "model_type": "mistral", "architectures": ["MistralForCausalLM"], "head_dim": 8,
    "tie_word_embeddings": False, "rope_theta": 10000.0, "sliding_window": 3,
}  # fmt: skip
SMOLLM3: dict[str, Any] = {
    **_COMMON, "model_type": "smollm3", "architectures": ["SmolLM3ForCausalLM"],
    "tie_word_embeddings": True, "rope_theta": 10000.0, "no_rope_layers": [1, 0], "pad_token_id": None,
}  # fmt: skip
LLAMA: dict[str, Any] = {
    **_COMMON, "model_type": "llama", "architectures": ["LlamaForCausalLM"], "head_dim": 8,
    "tie_word_embeddings": False, "rope_theta": 500.0, "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 32,
        "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    },
}  # fmt: skip
FAMILIES = {"llama": LLAMA, "qwen3": QWEN3, "qwen2": QWEN2, "mistral": MISTRAL, "smollm3": SMOLLM3}


def write(folder: Path, config: Mapping[str, Any]) -> Path:
    """A folder with a config and one safetensors file in float32."""
    header: dict[str, Any] = {}
    data = b""
    for seed, (name, shape) in enumerate(_shapes(config)):
        values = _values(seed, shape, norm="norm" in name)
        header[name] = {
            "dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(values)]
        }  # fmt: skip
        data += values
    raw = json.dumps(header).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(pack("<Q", len(raw)) + raw + data)
    return folder


def _shapes(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    size = config.get("head_dim", hidden // config["num_attention_heads"])
    queries, keys = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    block: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (queries, hidden), "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden), "self_attn.o_proj.weight": (hidden, queries),
        "mlp.gate_proj.weight": (inner, hidden), "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }  # fmt: skip
    if config["model_type"] == "qwen3":
        block |= {"self_attn.q_norm.weight": (size,), "self_attn.k_norm.weight": (size,)}
    if config["model_type"] == "qwen2":
        block |= {f"self_attn.{name}_proj.bias": (keys,) for name in "kv"}
        block["self_attn.q_proj.bias"] = (queries,)
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        for name, shape in block.items():
            yield f"model.layers.{layer}.{name}", shape
    yield "model.norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], hidden)


def _values(seed: int, shape: tuple[int, ...], *, norm: bool) -> bytes:
    """Norm weights about 1, all others within half; no two tensors alike."""
    count = prod(shape)
    numbers = (sin(1.7 * index * index + 0.9 * index + seed) for index in range(count))
    return pack(f"<{count}f", *(1 + 0.3 * x if norm else 0.5 * x for x in numbers))
