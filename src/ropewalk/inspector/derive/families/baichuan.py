"""Baichuan: the 7B models rotate, the 13B ones use ALiBi; only the width tells.

vLLM 0.33, model_executor/models/baichuan.py: ``position_embedding="ROPE" if hidden_size == 4096``.
"""

from ropewalk.inspector.derive.families.base import Family, register
from ropewalk.inspector.derive.settings import Settings


def _positions(settings: Settings) -> str | None:
    return None if settings.integer("hidden_size") in (4096, None) else "alibi"


FAMILY = register(Family(("baichuan",), positions=_positions))
