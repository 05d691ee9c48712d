"""Inspections of bare configs, as far as rope decisions read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ropewalk.inspector.derive.rope_config import rope_from_gguf, standardise_rope
from ropewalk.inspector.published import contexts
from ropewalk.inspector.records import CheckpointSummary, Fact, Format, Inspection

MakeInspection = Callable[..., Inspection]
_COPIED = (
    "model_type", "max_position_embeddings", "num_hidden_layers", "hidden_size", "intermediate_size",
    "qk_rope_head_dim", "model_max_length",
)  # fmt: skip


def _inspection(
    config: Mapping[str, Any],
    *,
    positions: str = "rope",
    text_config_key: str | None = None,
    head_dim: int = 128,
) -> Inspection:
    rotary = positions in ("rope", "nope_mixed")
    rope = standardise_rope(config, head_dim=config.get("qk_rope_head_dim") or head_dim, rotary=rotary)
    facts = {key: Fact(config[key], "config", key) for key in _COPIED if config.get(key) is not None}
    for key in ("max_seq_len", "n_positions"):
        if key in config:
            facts["max_position_embeddings"] = Fact(config[key], "config", key)
    facts |= rope.facts | {
        "head_dim": Fact(head_dim, "config"),
        "position_embedding": Fact(positions, "derived"),
        "text_config_key": Fact(text_config_key, "config"),
    }
    return _record(facts | contexts(facts), "config")


def _from_gguf(metadata: Mapping[str, Any], *, head_dim: int = 128, **tensors: bool) -> Inspection:
    arch = metadata["general.architecture"]
    rope = rope_from_gguf(metadata, head_dim=head_dim, **tensors)
    facts = {
        "model_type": Fact(arch, "gguf"),
        "max_position_embeddings": Fact(metadata[f"{arch}.context_length"], "gguf", "context_length"),
        "head_dim": Fact(head_dim, "gguf"),
        "position_embedding": Fact("rope", "derived"),
        **rope.facts,
    }
    return _record(facts | contexts(facts), "gguf")


def _record(facts: dict[str, Fact], file_format: Format) -> Inspection:
    summary = CheckpointSummary("model", "model", file_format, (), 0, 0, 0, None, {})
    return Inspection(summary, facts, (), None, None, ())


@pytest.fixture(scope="session")
def inspection_of() -> MakeInspection:
    """An inspection from a text config: ``inspection_of(config, positions=..., text_config_key=...)``."""
    return _inspection


@pytest.fixture(scope="session")
def inspection_of_gguf() -> MakeInspection:
    """An inspection from GGUF metadata."""
    return _from_gguf


@pytest.fixture(scope="session")
def qwen3(inspection_of: MakeInspection) -> Inspection:
    """Qwen3-8B's config.json (QwenLM, transformers 4 keys)."""
    return inspection_of(
        {
            "model_type": "qwen3", "max_position_embeddings": 40960, "rope_theta": 1000000,
            "rope_scaling": None, "num_hidden_layers": 36, "hidden_size": 4096, "intermediate_size": 12288,
        }
    )  # fmt: skip


@pytest.fixture(scope="session")
def plain_gguf(inspection_of_gguf: MakeInspection) -> Inspection:
    """SmolLM2-135M-Instruct as GGUF: plain, trained for 8,192, no publisher's rule."""
    return inspection_of_gguf(
        {"general.architecture": "llama", "llama.context_length": 8192, "llama.rope.freq_base": 100000.0},
        head_dim=64,
    )
