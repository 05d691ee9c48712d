"""What is told about a model type or a layer list that this version has not met."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ropewalk.findings import Finding
from ropewalk.inspector.derive.class_defaults import class_defaults
from ropewalk.inspector.derive.families import is_family
from ropewalk.inspector.derive.patterns import unknown_words
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.layer_kinds import AnyLayer

# Keys by which configs speak of layers that keep something else than plain keys and values.
_UNUSUAL = re.compile(
    r"mamba|ssm|recurr|linear_attn|rwkv|window|chunk_size|compress|sparse|layer_type|_pattern|kv_shared|block_type"
)


def unknown_findings(settings: Settings, layers: Sequence[AnyLayer]) -> list[Finding]:
    """An unknown ``model_type`` is ordinary: information where the default rule read all that is stated,
    a warning where keys speak of special layers and the rule found none."""
    found: list[Finding] = []
    words = sorted(unknown_words(settings))
    if words:
        message = f"layer types {', '.join(words)} are not known; they count as full attention"
        found.append(Finding("unknown_layer_type", "warning", message, {"values": words}))
    if any(layer.kind == "recurrent" and not layer.state for layer in layers):
        message = "the size of the state that the recurrent layers keep is not known; it is left out"
        found.append(Finding("state_unknown", "warning", message, {"model_type": settings.model_type}))
    known = class_defaults(settings.model_type) or is_family(settings.model_type)
    if known or settings.format == "gguf" or settings.model_type is None:
        return found
    unread = _unread(settings, layers)
    where = {"model_type": settings.model_type, "unread": unread}
    message = f"model_type {settings.model_type} is not known here; the rule by fields and tensors is used"
    if unread:
        message += f", and it does not read {', '.join(unread)}: check the layers"
    found.append(Finding("unknown_model_type", "warning" if unread else "info", message, where))
    return found


def _unread(settings: Settings, layers: Sequence[AnyLayer]) -> list[str]:
    """Stated keys of special layers, where every layer came out as plain attention."""
    if any(layer.kind != "full" or layer.indexer_head_dim for layer in layers):
        return []
    keys = sorted(key for key, value in settings.block.items() if value and _UNUSUAL.search(key))
    off = settings.raw("use_sliding_window") is False
    return [key for key in keys if not (off and "window" in key)]
