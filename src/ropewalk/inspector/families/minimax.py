"""MiniMax-Text-01 and M1: lightning attention keeps one square matrix per head (modeling_minimax.py)."""

from ropewalk.inspector.families.base import Family, register
from ropewalk.inspector.records import StateTensor
from ropewalk.inspector.settings import Settings


def _state(settings: Settings) -> tuple[StateTensor, ...] | None:
    heads, size = settings.integer("num_attention_heads"), settings.integer("head_dim")
    hidden = settings.integer("hidden_size")
    if heads and not size and hidden:
        size = hidden // heads
    return (StateTensor("linear", (heads, size, size)),) if heads and size else None


FAMILY = register(Family(("minimax", "minimax_text_01", "minimax_m1", "minimax-01"), state=_state))
