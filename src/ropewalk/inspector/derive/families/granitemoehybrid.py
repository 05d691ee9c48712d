"""Granite 4: attention without positions unless the config asks for rope (modeling_granitemoehybrid.py)."""

from ropewalk.inspector.derive.families.base import Family, register
from ropewalk.inspector.derive.settings import Settings


def _positions(settings: Settings) -> str | None:
    if settings.format == "gguf":  # granite-hybrid.cpp takes this key as the switch, on by default
        return "none" if settings.raw("rope.scaling.finetuned") is False else None
    return None if settings.raw("position_embedding_type") == "rope" else "none"


FAMILY = register(Family(("granitemoehybrid", "granitehybrid"), positions=_positions))
