"""Jamba: attention without positions; the state-space layers carry the order."""

from ropewalk.inspector.derive.families.base import Family, register

FAMILY = register(Family(("jamba",), positions=lambda settings: "none"))
