"""Names from files, made fit for messages: a hostile header has a tensor name of 50 MB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MAX_NAMED = 20
"""A finding names this many places and counts the rest."""
_MAX_CHARS = 200
_MAX_ITEMS = 16


def clip(value: Any) -> Any:
    """The value, or the start of it where it is a long text or list."""
    if isinstance(value, str) and len(value) > _MAX_CHARS:
        return f"{value[:_MAX_CHARS]}… ({len(value):,} characters)"
    if isinstance(value, list | tuple):
        return [*map(clip, value[:_MAX_ITEMS]), *(["…"] if len(value) > _MAX_ITEMS else [])]
    return value


def some(names: Sequence[str]) -> str:
    """The first three names, and how many more there are."""
    shown = ", ".join(map(clip, names[:3]))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3:,} more"
