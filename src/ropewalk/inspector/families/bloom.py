"""BLOOM: ALiBi, which its config does not mention."""

from ropewalk.inspector.families.base import Family, register

FAMILY = register(Family(("bloom",), positions=lambda settings: "alibi"))
