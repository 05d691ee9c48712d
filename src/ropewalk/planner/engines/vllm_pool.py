"""vLLM's one pool of blocks: layers into buckets, buckets into groups, groups to bytes per block.

Read in vLLM 0.32.0, v1/kv_cache_interface.py and v1/core/kv_cache_utils.py:1290-1500, 2159-2530 (layer-
outer cache layout); checked against 12 served configurations and the planner's own output.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

BucketKind = Literal["full", "sliding", "chunked", "state", "cross"]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Layers with the same cache: ``page_bytes`` is one layer's part of a block of ``block_size`` tokens.

    ``window`` is the width of a window or chunk, ``pages`` what a ``state`` or ``cross`` layer holds per
    request whatever its length (0: as a full one), ``extra`` the blocks of a state beyond its length,
    ``term`` the memory term that it belongs to.
    """

    kind: BucketKind
    layers: tuple[int, ...]
    page_bytes: int
    block_size: int
    window: int = 0
    pages: int = 0
    extra: int = 0
    term: str = "kv_cache"

    def blocks(self, context_len: int, in_flight: int) -> int:
        """Blocks of one request: what vLLM admits it with at most."""
        if self.pages:
            return self.pages
        if self.kind in ("full", "cross", "state"):
            return -(-context_len // self.block_size) + self.extra
        if self.kind == "sliding":
            # One more, as a window may start inside a block.
            return -(-min(self.window - 1 + in_flight, context_len) // self.block_size) + 1
        return -(-min(self.window + in_flight, context_len) // self.block_size)

    def bytes_per_block(self, stage: tuple[int, int]) -> int:
        """Bytes of one block in the layers of a stage."""
        first, last = stage
        return self.page_bytes * (bisect_left(self.layers, last) - bisect_left(self.layers, first))


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share a block table; ``parts`` hold the same tokens with different pages."""

    parts: tuple[Bucket, ...]

    def bytes_per_block(self, stage: tuple[int, int]) -> int:
        """Bytes of one block on the rank that holds the blocks of ``stage``."""
        return sum(part.bytes_per_block(stage) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Pool:
    """The groups of a model and their sizes."""

    groups: tuple[Group, ...]

    def cache_bytes(self, stage: tuple[int, int], blocks: Sequence[int]) -> dict[str, int]:
        """Bytes on one rank by memory term, for so many ``blocks`` of each group.

        Groups draw whole blocks of the pool, however narrow they are; only where there is a single
        group do its parts pay for themselves.
        """
        sizes: dict[str, int] = {}
        whole = self.bytes_per_block(stage)
        for group, count in zip(self.groups, blocks, strict=True):
            alone = len(self.groups) == 1
            parts = group.parts if alone else group.parts[:1]
            for part in parts:
                each = part.bytes_per_block(stage) if alone else whole
                sizes[part.term] = sizes.get(part.term, 0) + count * each
        return sizes

    def bytes_per_block(self, stage: tuple[int, int]) -> int:
        """Bytes of one block on a rank: its widest group decides."""
        return max((group.bytes_per_block(stage) for group in self.groups), default=0)

    def group_blocks(self, context_len: int, in_flight: int) -> list[int]:
        """Blocks that one request of this length may claim in each group."""
        return [max(part.blocks(context_len, in_flight) for part in group.parts) for group in self.groups]

    def request_blocks(self, context_len: int, in_flight: int) -> int:
        """Blocks that one request of this length may claim, over all groups."""
        return sum(self.group_blocks(context_len, in_flight))


def make_pool(buckets: Sequence[Bucket], *, hybrid: bool = True) -> Pool:
    """Group the layers as vLLM does. ``hybrid`` False prices windows as full attention."""
    merged = _merge(buckets if hybrid else _promoted(buckets))
    if not merged:
        return Pool(())
    if _one_table(merged):
        return Pool((Group(tuple(merged)),))
    return Pool(tuple(Group((part,)) for part in _equal_groups(_equal_pages(merged))))


def _merge(buckets: Iterable[Bucket]) -> list[Bucket]:
    """Buckets that differ in their layers only, together."""
    merged: dict[Bucket, list[int]] = {}
    for bucket in buckets:
        merged.setdefault(replace(bucket, layers=()), []).extend(bucket.layers)
    return [replace(key, layers=tuple(sorted(layers))) for key, layers in merged.items()]


def _promoted(buckets: Sequence[Bucket]) -> list[Bucket]:
    """Windows and chunks as full attention, where there is full attention beside them."""
    if not any(bucket.kind == "full" for bucket in buckets):
        return list(buckets)
    return [
        replace(bucket, kind="full", window=0) if bucket.kind in ("sliding", "chunked") else bucket
        for bucket in buckets
    ]


def _one_table(buckets: Sequence[Bucket]) -> bool:
    """Whether all layers always need the same number of token slots."""
    first = buckets[0]
    if first.kind == "state":
        return len(buckets) == 1
    return all(
        (b.kind, b.window, b.block_size) == (first.kind, first.window, first.block_size) for b in buckets
    )


def _equal_pages(buckets: Sequence[Bucket]) -> list[Bucket]:
    """Raise smaller pages to the largest: by longer blocks where that divides, else by padding."""
    largest = max(bucket.page_bytes for bucket in buckets)
    return [_raised(bucket, largest) for bucket in buckets]


def _raised(bucket: Bucket, page_bytes: int) -> Bucket:
    if bucket.kind == "state" or not bucket.page_bytes or page_bytes % bucket.page_bytes:
        return replace(bucket, page_bytes=page_bytes)
    longer = bucket.block_size * (page_bytes // bucket.page_bytes)
    return replace(bucket, page_bytes=page_bytes, block_size=longer)


def _equal_groups(buckets: Sequence[Bucket]) -> list[Bucket]:
    """Split the buckets into groups of as many layers as the smallest has.

    Where the largest is less than half as large again, its size is taken and the others are padded.
    """
    counts = [len(bucket.layers) for bucket in buckets]
    size = max(counts) if 2 * max(counts) < 3 * min(counts) else min(counts)
    groups = []
    for bucket in buckets:
        num_groups = -(-len(bucket.layers) // size)
        groups += [replace(bucket, layers=bucket.layers[start::num_groups]) for start in range(num_groups)]
    return groups
