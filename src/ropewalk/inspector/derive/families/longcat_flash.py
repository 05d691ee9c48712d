"""LongCat Flash: two latent attentions per layer, each with its own cache (modeling_longcat_flash.py)."""

from ropewalk.inspector.derive.families.base import Family, register

FAMILY = register(Family(("longcat_flash",), caches_per_layer=2))
