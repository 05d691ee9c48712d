"""What a plan takes, term by term, and what each device holds of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Basis = Literal["exact", "engine_rule", "dry_run", "estimate"]


@dataclass(frozen=True, slots=True)
class MemoryTerm:
    """One named part of the memory; ``low_bytes`` <= ``bytes`` <= ``high_bytes``, equal where exact.

    ``logical_bytes`` is what the model itself needs of a cache, before the engine rounds, pads and
    replicates; None for what is no cache.
    """

    name: str
    bytes: int
    low_bytes: int
    high_bytes: int
    basis: Basis
    source: str
    logical_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class KvCache:
    """What the model needs to keep, and what the engine reserves for it.

    ``bytes_per_token`` sums the layers that grow with every token, index keys included. Where some forget,
    that holds up to the shortest of the ``windows``, and ``bytes_per_token_beyond`` is what each token adds
    past the longest; ``logical_bytes`` is what keys and values of ``num_sequences`` full contexts need,
    windows capped at their width; ``reserved_bytes`` is what the target needs of the engine. ``block_size``
    and ``num_blocks`` are the engine's units (vLLM blocks; for llama-server cells of one token, padded).

    The ``pool_*`` figures are those of the pool that this start takes, on one device, as the engine prints
    them, with the ends of the range that they rest on; None where the engine has no pool of its own size,
    or where the memory of the device is not known.
    """

    bytes_per_token: int
    logical_bytes: int
    reserved_bytes: int
    state_bytes_per_sequence: int
    block_size: int
    num_blocks: int
    max_concurrency: float | None
    pool_bytes: int | None = None
    pool_bytes_low: int | None = None
    pool_bytes_high: int | None = None
    pool_blocks: int | None = None
    pool_blocks_low: int | None = None
    pool_blocks_high: int | None = None
    pool_tokens: int | None = None
    pool_tokens_low: int | None = None
    pool_tokens_high: int | None = None
    pool_concurrency: float | None = None
    pool_concurrency_low: float | None = None
    pool_concurrency_high: float | None = None
    windows: tuple[int, ...] = ()
    bytes_per_token_beyond: int | None = None


@dataclass(frozen=True, slots=True)
class RankPlace:
    """Where a rank stands and what it alone holds.

    ``node``, ``replica``, ``stage`` and ``shard`` count from 0. ``experts`` is the half-open range of
    routed experts where they are spread over ranks, None where each rank has a slice of all.
    ``budget_bytes`` is what the engine may use there, ``blocks`` what that leaves room for (None without
    a budget, or where the engine has none); all ranks of a replica serve with the fewest blocks. The
    ``tightest`` is the one rank of the plan that decides: the first with the fewest blocks, or without a
    budget the one that needs most.
    """

    node: int
    replica: int = 0
    stage: int = 0
    shard: int = 0
    embedding: bool = False
    head: bool = False
    experts: tuple[int, int] | None = None
    budget_bytes: int | None = None
    blocks: int | None = None
    tightest: bool = False


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """What one device holds. ``layers`` is the half-open range ``[first, last)`` of blocks on it.

    ``kv_bytes`` are all its caches and states; ``high_bytes`` is what ``fits`` is judged by. ``place`` is
    set where there are several ranks; ``terms`` are those of this device alone.
    """

    device: str
    weights_bytes: int
    kv_bytes: int
    total_bytes: int
    fits: bool | None
    layers: tuple[int, int]
    high_bytes: int | None = None
    place: RankPlace | None = None
    terms: tuple[MemoryTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """All terms; ``total_bytes`` and ``high_bytes`` are their sums."""

    terms: tuple[MemoryTerm, ...]
    total_bytes: int
    high_bytes: int
    kv: KvCache
    per_device: tuple[DeviceShare, ...]

    def term(self, name: str) -> MemoryTerm | None:
        """The term of this name, or None where the engine has none."""
        return next((term for term in self.terms if term.name == name), None)
