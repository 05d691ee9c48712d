"""Mamba 1 and 2: state-space layers only; Mamba 2 names its state's heads as if they were attention's."""

from ropewalk.inspector.derive.families.base import Family, register

FAMILY = register(
    Family(
        ("mamba", "mamba2", "falcon_mamba", "falcon-mamba"),
        positions=lambda settings: "none",
        all_recurrent=True,
        normalisation="RMSNorm",
    )
)
