"""EXAONE 4: where some layers slide, the full-attention ones have no positions (modeling_exaone4.py:234)."""

from ropewalk.inspector.derive.families.base import Family, register

FAMILY = register(Family(("exaone4", "exaone_moe", "exaone-moe"), nope_words=frozenset({"full"})))
