"""One file per family that fields and tensors cannot describe; importing this package registers them all."""

from ropewalk.inspector.derive.families import (
    afmoe,
    baichuan,
    bert,
    bloom,
    cohere2,
    exaone4,
    gpt2,
    granitemoehybrid,
    jamba,
    longcat_flash,
    mamba,
    minimax,
    nemotron_h,
    rwkv,
    t5,
)
from ropewalk.inspector.derive.families.base import Family, family_of, is_family

__all__ = ["Family", "family_of", "is_family"]

_REGISTERED = (
    afmoe, baichuan, bert, bloom, cohere2, exaone4, gpt2, granitemoehybrid, jamba, longcat_flash,
    mamba, minimax, nemotron_h, rwkv, t5,
)  # fmt: skip
