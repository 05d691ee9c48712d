"""T5: a learned bias per distance instead of positions."""

from ropewalk.inspector.derive.families.base import Family, register

FAMILY = register(
    Family(("t5", "mt5", "umt5"), positions=lambda settings: "relative", normalisation="RMSNorm")
)
