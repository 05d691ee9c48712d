"""What a model keeps on its own, before any engine: per token, per sequence, and at its own lengths."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.errors import RopewalkError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.caches import CacheType
from ropewalk.planner.layers_cache import logical_cache
from ropewalk.planner.model import shape_of

_BF16 = CacheType("bf16", 1, 2)


@dataclass(frozen=True, slots=True)
class CacheSummary:
    """Bytes of one sequence in ``cache_type``. ``at`` holds (tokens, bytes) of all caches that grow.

    ``bytes_per_token`` holds up to the shortest of the ``windows``, ``bytes_per_token_beyond`` past the
    longest.
    """

    cache_type: str
    bytes_per_token: int
    state_bytes: int
    at: tuple[tuple[int, int], ...]
    windows: tuple[int, ...] = ()
    bytes_per_token_beyond: int | None = None


def cache_summary(inspection: Inspection) -> CacheSummary | None:
    """What is kept at the trained and at the published length; None where a dimension is unknown."""
    lengths = [inspection.value("native_context"), inspection.value("supported_context")]
    lengths = [length for length in dict.fromkeys(lengths) if length]
    try:
        shape = shape_of(inspection)
    except RopewalkError:
        return None
    caches = [
        logical_cache(shape.layers, context_len=length, key=_BF16, value=_BF16, encoder_len=shape.encoder_len)
        for length in lengths
    ]
    if not caches:
        return None
    return CacheSummary(
        cache_type=_BF16.name,
        bytes_per_token=caches[0].token_bytes,
        state_bytes=caches[0].state_elements * shape.state_dtype_bytes,
        at=tuple(
            (length, cache.kv_bytes + cache.indexer_bytes)
            for length, cache in zip(lengths, caches, strict=True)
        ),
        windows=caches[0].windows,
        bytes_per_token_beyond=caches[0].beyond_bytes,
    )
