"""What sort of checkpoint this is: a model, an adapter to one, a draft head, a projector."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ropewalk.findings import Finding
from ropewalk.inspector.derive.names import Names
from ropewalk.inspector.derive.places import tower_of
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.records import Checkpoint, CheckpointKind, Fact

ADAPTER_CONFIG = "adapter_config.json"
_DRAFT = re.compile(
    r"eagle|draft|medusa|mlp_?speculator|DFlash|DSpark|MTPModel|NextN|assistant$", re.IGNORECASE
)
_LORA = re.compile(r"lora_[AB]\.|lora_embedding_[AB]|\.lora_[ab]$")


def kind_of(checkpoint: Checkpoint, settings: Settings, names: Names) -> CheckpointKind:
    """By the adapter's own file, by GGUF's ``general.type``, by architecture, by the names of the tensors."""
    gguf_type = checkpoint.gguf.get("general.type")
    if gguf_type == "adapter" or _is_adapter(checkpoint):
        return "adapter"
    if gguf_type == "mmproj" or settings.architecture == "clip":
        return "projector"
    if _DRAFT.search(settings.architecture or "") or "draft_vocab_size" in settings.block:
        return "draft"
    if settings.value("num_hidden_layers") is None and not _has_language_model(names):
        return "unknown"
    return "model"


def _has_language_model(names: Names) -> bool:
    """Whether any numbered blocks are outside of vision and audio towers."""
    return any(tower_of(prefix) in (None, "encoder") for prefix in names.stacks)


def _is_adapter(checkpoint: Checkpoint) -> bool:
    if any(name.rpartition("/")[2] == ADAPTER_CONFIG for name in checkpoint.relatives):
        return True
    names = checkpoint.tensors.names
    return bool(names) and all(_LORA.search(name) for name in names[:8])


def adapter_facts(checkpoint: Checkpoint) -> tuple[dict[str, Fact], list[Finding]]:
    """Base model, rank and targets of an adapter, and the finding that it is no model of its own."""
    config = _adapter_config(checkpoint)
    facts: dict[str, Fact] = {}
    for name, key in (
        ("base_model", "base_model_name_or_path"),
        ("adapter_type", "peft_type"),
        ("adapter_rank", "r"),
        ("adapter_alpha", "lora_alpha"),
        ("adapter_targets", "target_modules"),
    ):
        if config.get(key) is not None:
            facts[name] = Fact(config[key], "config", f"{ADAPTER_CONFIG}: {key}")
    for name, key in (
        ("base_model", "general.base_model.0.name"),
        ("adapter_type", "adapter.type"),
        ("adapter_alpha", "adapter.lora.alpha"),
    ):
        if name not in facts and checkpoint.gguf.get(key) is not None:
            facts[name] = Fact(checkpoint.gguf[key], "gguf", key)
    if "adapter_rank" not in facts:
        facts["adapter_rank"] = _rank(checkpoint)
    base = facts["base_model"].value if "base_model" in facts else None
    message = f"an adapter, not a model: it needs its base model{f' {base}' if base else ''}"
    return facts, [Finding("adapter_only", "warning", message, {"base_model": base})]


def _adapter_config(checkpoint: Checkpoint) -> Mapping[str, Any]:
    for name, content in checkpoint.relatives.items():
        if name.rpartition("/")[2] == ADAPTER_CONFIG and isinstance(content, Mapping):
            return content
    return {}


def _rank(checkpoint: Checkpoint) -> Fact:
    """The short side of the first factor."""
    for name, shape in zip(checkpoint.tensors.names, checkpoint.tensors.shapes, strict=True):
        if _LORA.search(name) and len(shape) == 2:
            return Fact(min(shape), "tensor", name)
    return Fact(None, "derived", "no factor is stored")
