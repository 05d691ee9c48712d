"""Checkpoints as an inspection tells of them, from their published configs, small enough to be read here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from ropewalk.inspector.derive.rope_config import rope_from_gguf, standardise_rope
from ropewalk.inspector.layer_kinds import AnyLayer, FullAttention, LatentAttention, SlidingWindow
from ropewalk.inspector.published import contexts
from ropewalk.inspector.records import (
    CheckpointSummary,
    Fact,
    Format,
    Inspection,
    Source,
)
from ropewalk.planner.machine import Machine

ROOMY = Machine(memory_bytes=1 << 44)  # so that memory is judged, and never what is wrong
MakeCheckpoint = Callable[..., Inspection]
Layers = Sequence[tuple[int, int, int, int | None]]  # number, KV heads, head dim, window

QWEN3_8B: dict[str, Any] = {
    "model_type": "qwen3", "max_position_embeddings": 40960, "rope_theta": 1000000, "num_hidden_layers": 36,
    "hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 151936,
}  # fmt: skip
LLAMA_31_8B: dict[str, Any] = {
    "model_type": "llama", "max_position_embeddings": 131072, "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256,
}  # fmt: skip
QWEN3_VL: dict[str, Any] = {
    "model_type": "qwen3_vl_text", "max_position_embeddings": 262144,
    "rope_parameters": {
        "rope_type": "default", "rope_theta": 5000000, "mrope_section": [24, 20, 20],
        "mrope_interleaved": True,
    },
    "num_hidden_layers": 36, "hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 151936,
}  # fmt: skip
PHI3: dict[str, Any] = {
    "model_type": "phi3", "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [4.0] * 48},
    "num_hidden_layers": 32, "hidden_size": 3072, "intermediate_size": 8192, "num_attention_heads": 32,
    "num_key_value_heads": 32, "vocab_size": 32064,
}  # fmt: skip
SMOLLM2: dict[str, Any] = {
    "model_type": "llama", "max_position_embeddings": 8192, "rope_theta": 100000, "num_hidden_layers": 30,
    "hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3,
    "vocab_size": 49152,
}  # fmt: skip
CONFIGS = {
    "qwen3-8b": QWEN3_8B,
    "llama-3.1-8b": LLAMA_31_8B,
    "qwen3-vl-8b": QWEN3_VL,
    "phi3-mini": PHI3,
    "smollm2": SMOLLM2,
}
_COPIED = (
    "model_type", "max_position_embeddings", "num_hidden_layers", "hidden_size", "intermediate_size",
    "num_attention_heads", "num_key_value_heads", "vocab_size",
)  # fmt: skip


def from_config(name: str, **changes: Any) -> Inspection:
    """A checkpoint of :data:`CONFIGS`, some keys replaced; ``text_config_key`` nests it."""
    nested = changes.pop("text_config_key", "text_config" if name == "qwen3-vl-8b" else None)
    config = {**CONFIGS[name], **changes}
    heads = config["num_attention_heads"]
    dim = 128 if name.startswith("qwen3") else config["hidden_size"] // heads
    rope = standardise_rope(config, head_dim=dim)
    facts = {key: Fact(config[key], "config", key) for key in _COPIED if key in config}
    facts |= rope.facts
    facts["text_config_key"] = Fact(nested, "config")
    layers = ((config["num_hidden_layers"], config["num_key_value_heads"], dim, None),)
    return _inspection(facts, layers, heads, "config", "config")


def from_gguf(metadata: Mapping[str, Any], layers: Layers, *, heads: int = 32, **sizes: int) -> Inspection:
    """A GGUF with this metadata; ``layers`` are groups of (number, KV heads, head dim, window)."""
    arch = metadata["general.architecture"]
    dim = layers[0][2]
    rope = rope_from_gguf(metadata, head_dim=dim)
    key = f"{arch}.context_length"
    facts = {
        "model_type": Fact(arch, "gguf"),
        "max_position_embeddings": Fact(metadata[key], "gguf", key),
        "num_attention_heads": Fact(heads, "gguf"),
        "num_hidden_layers": Fact(sum(group[0] for group in layers), "gguf"),
        "hidden_size": Fact(sizes.get("hidden_size", 4096), "gguf"),
        "intermediate_size": Fact(sizes.get("intermediate_size", 12288), "gguf"),
        "vocab_size": Fact(sizes.get("vocab_size", 151936), "gguf"),
        **rope.facts,
    }
    return _inspection(facts, layers, heads, "gguf", "gguf")


def _inspection(
    facts: dict[str, Fact], layers: Layers, heads: int, source: Source, file_format: Format
) -> Inspection:
    groups: list[AnyLayer] = []
    first = 0
    for count, kv, dim, window in layers:
        indices = tuple(range(first, first + count))
        sizes = (indices, heads, kv, dim, dim)
        group: AnyLayer = SlidingWindow(*sizes, window=window) if window else FullAttention(*sizes)
        groups.append(LatentAttention(indices, heads, dim) if dim == 576 else group)
        first += count
    facts["position_embedding"] = Fact("rope", "derived")
    summary = CheckpointSummary("a model", "model", file_format, (), 0, 0, 0, None, {})
    return Inspection(summary, facts | contexts(facts), tuple(groups), None, None, ())


@pytest.fixture
def config() -> MakeCheckpoint:
    """Checkpoints with a ``config.json``, by name."""
    return from_config


@pytest.fixture
def gguf() -> MakeCheckpoint:
    """GGUF checkpoints, from their metadata."""
    return from_gguf


@pytest.fixture
def smollm2_gguf() -> Inspection:
    """SmolLM2-135M-Instruct: trained context 8,192, 30 layers of 3 KV heads of 64."""
    metadata = {
        "general.architecture": "llama", "llama.context_length": 8192, "llama.rope.freq_base": 100000.0,
    }  # fmt: skip
    return from_gguf(
        metadata, ((30, 3, 64, None),), heads=9, hidden_size=576, intermediate_size=1536, vocab_size=49152
    )


@pytest.fixture
def qwen3_gguf() -> Inspection:
    """Qwen3-8B as converted: context_length 40,960, no scaling."""
    metadata = {
        "general.architecture": "qwen3", "qwen3.context_length": 40960, "qwen3.rope.freq_base": 1000000.0,
        "qwen3.block_count": 36, "qwen3.embedding_length": 4096, "qwen3.feed_forward_length": 12288,
    }  # fmt: skip
    return from_gguf(metadata, ((36, 8, 128, None),))
