"""Command R7B and Command A: the full-attention layers have no positions (modeling_cohere2.py)."""

from ropewalk.inspector.derive.families.base import Family, register

FAMILY = register(Family(("cohere2",), nope_words=frozenset({"full"})))
