"""Arcee AFMoE: the full-attention layers have no positions (transformers 5.24, modeling_afmoe.py)."""

from ropewalk.inspector.derive.families.base import Family, register

FAMILY = register(Family(("afmoe",), nope_words=frozenset({"full"})))
