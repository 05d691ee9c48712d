"""Cache types as each engine spells them, and what a row of keys or values costs in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ropewalk.errors import UsageError


@dataclass(frozen=True, slots=True)
class CacheType:
    """Storage of cached values: ``block_bytes`` for every ``block_len`` values of one head.

    ``head_bytes`` is added once per head and token (scales that are kept beside the values).
    """

    name: str
    block_len: int
    block_bytes: int
    head_bytes: int = 0

    @property
    def quantised(self) -> bool:
        """Whether fewer than two bytes are kept per value."""
        return self.block_bytes < 2 * self.block_len

    def row_bytes(self, num_heads: int, head_dim: int) -> int:
        """Bytes of one token's keys (or values) in one layer."""
        if head_dim == 0:
            return 0
        return num_heads * (head_dim * self.block_bytes // self.block_len + self.head_bytes)


def cache_types(*types: CacheType) -> dict[str, CacheType]:
    """The cache types by their names."""
    return {kind.name: kind for kind in types}


def find_cache_type(table: Mapping[str, CacheType], name: str, *, engine: str) -> CacheType:
    """The type of that name. Raises :class:`UsageError` with the names that the engine takes."""
    try:
        return table[name]
    except KeyError:
        raise UsageError(
            f"{engine} has no cache type {name!r}; it takes {', '.join(table)}",
            where={"flag": "--cache-type", "value": name, "allowed": list(table)},
        ) from None
