"""Memory terms per device, and their sum: every byte of a plan has a name, a basis and a source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ropewalk.planner.records import Basis, DeviceShare, KvCache, Memory, MemoryTerm

_WEAKNESS: dict[Basis, int] = {"exact": 0, "engine_rule": 1, "oracle": 2, "estimate": 3}
CACHES = frozenset({"kv_cache", "state", "cross_attention_cache", "indexer_cache"})


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """The terms of one device. ``budgeted`` False marks host memory beside the planned devices."""

    device: str
    layers: tuple[int, int]
    terms: tuple[MemoryTerm, ...]
    budgeted: bool = True

    @property
    def high_bytes(self) -> int:
        """Upper end of all terms."""
        return sum(term.high_bytes for term in self.terms)


@dataclass(frozen=True, slots=True)
class Priced:
    """What an engine would hold for a request, device by device.

    ``logical`` is what the model itself needs of each cache, by the name of its term.
    """

    devices: tuple[DeviceMemory, ...]
    kv: KvCache
    logical: dict[str, int]

    @property
    def tightest_bytes(self) -> int:
        """Upper end on the device that holds most: what a budget per device is compared with."""
        return max(device.high_bytes for device in self.devices if device.budgeted)


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


def memory_of(priced: Priced, usable_bytes: int | None) -> Memory:
    """Sum the devices term by term; ``usable_bytes`` is what each planned device may hold."""
    summed = _summed(term for device in priced.devices for term in device.terms)
    terms = tuple(replace(term, logical_bytes=priced.logical.get(term.name)) for term in summed)
    shares = tuple(_share(device, usable_bytes) for device in priced.devices)
    memory = Memory(
        terms=terms,
        total_bytes=sum(term.bytes for term in terms),
        high_bytes=sum(term.high_bytes for term in terms),
        kv=priced.kv,
        per_device=shares,
    )
    assert memory.total_bytes == sum(share.total_bytes for share in shares)  # noqa: S101
    return memory


def _share(device: DeviceMemory, usable_bytes: int | None) -> DeviceShare:
    high = device.high_bytes
    judged = device.budgeted and usable_bytes is not None
    return DeviceShare(
        device=device.device,
        weights_bytes=sum(term.bytes for term in device.terms if term.name == "weights"),
        kv_bytes=sum(term.bytes for term in device.terms if term.name in CACHES),
        total_bytes=sum(term.bytes for term in device.terms),
        fits=high <= (usable_bytes or 0) if judged else None,
        layers=device.layers,
        high_bytes=high,
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
