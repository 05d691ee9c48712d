"""Nemotron-H and Nemotron 3: attention without positions, though the config may state a rotary share."""

from ropewalk.inspector.derive.families.base import Family, register

FAMILY = register(
    Family(
        ("nemotron_h", "nemotron_h_moe", "nemotron_3"),
        positions=lambda settings: "none",
        normalisation="RMSNorm",
    )
)
