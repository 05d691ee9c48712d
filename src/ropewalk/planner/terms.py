"""Memory terms per device, and their sum: every byte of a plan has a name, a basis and a source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from ropewalk.planner.records import Basis, DeviceShare, KvCache, Memory, MemoryTerm, RankPlace

_WEAKNESS: dict[Basis, int] = {"exact": 0, "engine_rule": 1, "dry_run": 2, "estimate": 3}
CACHES = frozenset({"kv_cache", "state", "cross_attention_cache", "indexer_cache"})


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """The terms of one device, and what the engine may use of it.

    ``usable_bytes`` is None without a budget, and for host memory beside the planned devices.
    """

    device: str
    layers: tuple[int, int]
    terms: tuple[MemoryTerm, ...]
    usable_bytes: int | None = None
    place: RankPlace | None = None

    @property
    def high_bytes(self) -> int:
        """Upper end of the sum of all terms."""
        return sum(term.high_bytes for term in self.terms)


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """What an engine would hold for a request, device by device.

    ``logical`` is what the model itself needs of each cache, by the name of its term.
    """

    devices: tuple[DeviceMemory, ...]
    kv: KvCache
    logical: dict[str, int]

    @property
    def shortfall_bytes(self) -> int:
        """What the tightest device is short of at the upper end, negative for what it has to spare."""
        return shortfall_of(self.devices)


def shortfall_of(devices: Iterable[DeviceMemory]) -> int:
    """:attr:`MemoryEstimate.shortfall_bytes` of these devices, of which one has a budget."""
    return max(
        device.high_bytes - device.usable_bytes for device in devices if device.usable_bytes is not None
    )


def with_places(devices: Sequence[DeviceMemory], places: Sequence[RankPlace]) -> list[DeviceMemory]:
    """The devices with their places, the tightest of those with a budget marked."""
    judged = [rank for rank, device in enumerate(devices) if device.usable_bytes is not None]
    tightest = min(judged or range(len(devices)), key=lambda rank: _slack(devices[rank], places[rank]))
    return [
        replace(device, place=replace(place, tightest=rank == tightest))
        for rank, (device, place) in enumerate(zip(devices, places, strict=True))
    ]


def _slack(device: DeviceMemory, place: RankPlace) -> tuple[float, int]:
    """What orders devices from the tightest on: blocks where they are counted, then bytes to spare."""
    blocks = inf if place.blocks is None else place.blocks
    return blocks, (device.usable_bytes or 0) - device.high_bytes


def cache_bytes(devices: Iterable[DeviceMemory]) -> int:
    """All caches and states of all devices."""
    return sum(term.bytes for device in devices for term in device.terms if term.name in CACHES)


def exact(name: str, count: int, source: str, *, basis: Basis = "exact") -> MemoryTerm:
    """A term whose bytes are known."""
    return MemoryTerm(name, count, count, count, basis, source)


def estimate(name: str, count: int, low: int, high: int, source: str) -> MemoryTerm:
    """A term of which only a range is known."""
    assert low <= count <= high, f"{name}: {low} <= {count} <= {high}"  # noqa: S101
    return MemoryTerm(name, count, low, high, "estimate", source)


def memory_of(estimated: MemoryEstimate) -> Memory:
    """Sum the devices term by term."""
    summed = _summed(term for device in estimated.devices for term in device.terms)
    terms = tuple(
        replace(term, logical_bytes=estimated.logical.get(term.name, term.logical_bytes)) for term in summed
    )
    shares = tuple(_share(device) for device in estimated.devices)
    memory = Memory(
        terms=terms,
        total_bytes=sum(term.bytes for term in terms),
        high_bytes=sum(term.high_bytes for term in terms),
        kv=estimated.kv,
        per_device=shares,
    )
    assert memory.total_bytes == sum(share.total_bytes for share in shares)  # noqa: S101
    return memory


def _share(device: DeviceMemory) -> DeviceShare:
    high, usable = device.high_bytes, device.usable_bytes
    return DeviceShare(
        device=device.device,
        weights_bytes=sum(term.bytes for term in device.terms if term.name == "weights"),
        kv_bytes=sum(term.bytes for term in device.terms if term.name in CACHES),
        total_bytes=sum(term.bytes for term in device.terms),
        fits=None if usable is None else high <= usable,
        layers=device.layers,
        high_bytes=high,
        place=device.place,
        terms=device.terms,
    )


def _summed(terms: Iterable[MemoryTerm]) -> tuple[MemoryTerm, ...]:
    """One term per name, in order of appearance."""
    sums: dict[str, MemoryTerm] = {}
    for term in terms:
        have = sums.get(term.name)
        sums[term.name] = term if have is None else _added(have, term)
    return tuple(sums.values())


def _added(one: MemoryTerm, other: MemoryTerm) -> MemoryTerm:
    return MemoryTerm(
        name=one.name,
        bytes=one.bytes + other.bytes,
        low_bytes=one.low_bytes + other.low_bytes,
        high_bytes=one.high_bytes + other.high_bytes,
        basis=max(one.basis, other.basis, key=_WEAKNESS.__getitem__),
        source=one.source,
    )
