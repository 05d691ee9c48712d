"""BLOOM: ALiBi, which its config does not mention."""

from ropewalk.inspector.derive.families.base import Family, register

FAMILY = register(Family(("bloom",), positions=lambda settings: "alibi"))
