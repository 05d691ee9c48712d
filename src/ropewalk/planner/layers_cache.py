"""What a model needs to keep for a sequence, layer by layer, before any engine rounds it.

Each kind of layer prices itself (``inspector/layer_kinds.py``); here they are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ropewalk.inspector.layer_kinds import CrossAttention, LayerGroup
from ropewalk.planner.caches import CacheType


@dataclass(frozen=True, slots=True)
class LogicalCache:
    """Bytes that the model itself needs for one sequence, by what it keeps.

    ``token_bytes`` is the price of one token in all layers that keep tokens, index keys included. Where some
    forget, that holds up to the shortest of the ``windows``, and ``beyond_bytes`` is the price past the
    longest.
    """

    token_bytes: int
    kv_bytes: int
    indexer_bytes: int
    cross_bytes: int
    state_elements: int
    windows: tuple[int, ...] = ()
    beyond_bytes: int | None = None

    def terms(self, num_sequences: int, *, state_bytes: int) -> dict[str, int]:
        """Bytes of ``num_sequences`` by the name of the memory term; what the model lacks is left out."""
        sizes = {
            "kv_cache": self.kv_bytes,
            "state": state_bytes,
            "cross_attention_cache": self.cross_bytes,
            "indexer_cache": self.indexer_bytes,
        }
        return {name: size * num_sequences for name, size in sizes.items() if size}


def logical_cache(
    layers: Iterable[LayerGroup],
    *,
    context_len: int,
    key: CacheType,
    value: CacheType,
    encoder_len: int | None,
    index_row: Callable[[LayerGroup], int] | None = None,
) -> LogicalCache:
    """What one sequence of ``context_len`` tokens needs, summed over the layers.

    ``index_row`` is the engine's price of one index key, where that is not the keys'. Padding, blocks, slots
    and replication are the engines' and left out.
    """
    token = kv = indexer = cross = state = beyond = 0
    windows: set[int] = set()
    for group in layers:
        row = group.token_bytes(key, value) * group.count
        indexed = (index_row(group) if index_row else group.index_row_bytes(key)) * group.count
        if isinstance(group, CrossAttention):
            cross += row * (encoder_len or context_len)
        else:
            token += (row + indexed) // (group.compress_ratio or 1)
            if row and group.window:
                windows.add(group.window)
            if group.compress_ratio or not group.window:
                beyond += (row + indexed) // (group.compress_ratio or 1)
            kv += row * group.rows(context_len)
        indexer += indexed * (context_len // (group.compress_ratio or 1))
        state += group.state_elements * group.count
    return LogicalCache(token, kv, indexer, cross, state, tuple(sorted(windows)), beyond if windows else None)
