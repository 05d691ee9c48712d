"""Class defaults of transformers: what an engine assumes where a published config is silent.

Facts from here carry the source ``default``; the tensors overrule them, and a finding tells where they do.
``class_defaults.json`` keeps, in the config's own names, what decides sizes, heads, the kinds of layers,
norms and activations (transformers 5.24.0, models/*/configuration_*.py). The period of layers that a class
builds where ``layer_types`` is absent is listed as ``sliding_window_pattern``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = "transformers 5.24.0"

# Composite model types and the type of the language model inside, where the nested block does not say.
_TEXT_TYPES = {"llava": "llama", "llava_next": "llama", "pixtral": "mistral", "mllama": "mllama_text_model"}


def class_defaults(model_type: str | None) -> Mapping[str, Any]:
    """The defaults of a model type's configuration class; empty for a type that is not kept."""
    return _table().get(model_type or "", {})


def text_type(model_type: str | None) -> str | None:
    """The type of the language model in a composite one, as transformers chooses it; None if unknown."""
    if model_type is None:
        return None
    inner = _TEXT_TYPES.get(model_type, f"{model_type}_text")
    return inner if inner in _table() else None


@cache
def _table() -> dict[str, dict[str, Any]]:
    text = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    return dict(json.loads(text))
