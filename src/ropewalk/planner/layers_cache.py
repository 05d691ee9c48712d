"""What a model needs to keep for a sequence, layer by layer, before any engine rounds it.

Keys and values of an attention layer grow by one row per token (``full``, ``latent``), stop growing at
the window (``sliding``, ``chunked``), or are fixed (``cross``: one row per encoder token). A state is of
constant size; some layers keep one beside keys and values. ``shared`` layers read another layer's cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from ropewalk.inspector.records import LayerGroup
from ropewalk.planner.caches import CacheType

GROWING = frozenset({"full", "latent", "sliding", "chunked"})


@dataclass(frozen=True, slots=True)
class LogicalCache:
    """Bytes that the model itself needs for one sequence, by what it keeps.

    ``token_bytes`` is the price of one token in all layers that keep tokens.
    """

    token_bytes: int
    kv_bytes: int
    indexer_bytes: int
    cross_bytes: int
    state_elements: int

    def terms(self, num_sequences: int, *, state_bytes: int) -> dict[str, int]:
        """Bytes of ``num_sequences`` by the name of the memory term; what the model lacks is left out."""
        sizes = {
            "kv_cache": self.kv_bytes,
            "state": state_bytes,
            "cross_attention_cache": self.cross_bytes,
            "indexer_cache": self.indexer_bytes,
        }
        return {name: size * num_sequences for name, size in sizes.items() if size}


def layer_token_bytes(group: LayerGroup, key: CacheType, value: CacheType) -> int:
    """Bytes of one token's keys and values in one layer of this group; 0 where it keeps none."""
    if group.kind not in GROWING and group.kind != "cross":
        return 0
    heads = group.num_key_value_heads or 0
    return key.row_bytes(heads, group.head_dim_k or 0) + value.row_bytes(heads, group.head_dim_v or 0)


def kept_rows(group: LayerGroup, context_len: int) -> int:
    """Rows of one sequence that a layer of this group still reads at ``context_len``.

    A window and, where the layer pools what is older, one row per ``compress_ratio`` tokens.
    """
    if not group.window:
        return context_len
    pooled = context_len // group.compress_ratio if group.compress_ratio else 0
    return min(context_len, group.window) + pooled


def state_elements(group: LayerGroup) -> int:
    """Numbers that one recurrent layer keeps per sequence."""
    return sum(prod(tensor.shape) for tensor in group.state)


def logical_cache(
    layers: Iterable[LayerGroup],
    *,
    context_len: int,
    key: CacheType,
    value: CacheType,
    encoder_len: int | None,
) -> LogicalCache:
    """What one sequence of ``context_len`` tokens needs, summed over the layers.

    Padding, blocks, slots and replication are the engines' and left out.
    """
    token = kv = indexer = cross = state = 0
    for group in layers:
        row = layer_token_bytes(group, key, value) * group.count
        if group.kind == "cross":
            cross += row * (encoder_len or context_len)
        else:
            token += row // (group.compress_ratio or 1)
            kv += row * kept_rows(group, context_len)
        if group.indexer_head_dim:
            pooled = context_len // (group.compress_ratio or 1)
            indexer += key.row_bytes(1, group.indexer_head_dim) * group.count * pooled
        state += state_elements(group) * group.count
    return LogicalCache(token, kv, indexer, cross, state)
