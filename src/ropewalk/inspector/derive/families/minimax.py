"""MiniMax-Text-01 and M1: lightning attention keeps one square matrix per head (modeling_minimax.py)."""

from ropewalk.inspector.derive.families.base import Family, register
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.records import StateTensor


def _state(settings: Settings) -> tuple[StateTensor, ...] | None:
    heads, size = settings.integer("num_attention_heads"), settings.integer("head_dim")
    hidden = settings.integer("hidden_size")
    if heads and not size and hidden:
        size = hidden // heads
    return (StateTensor("linear", (heads, size, size)),) if heads and size else None


FAMILY = register(Family(("minimax", "minimax_text_01", "minimax_m1", "minimax-01"), state=_state))
