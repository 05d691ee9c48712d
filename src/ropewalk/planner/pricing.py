"""What a request takes of its tightest device: the price by which ways out and candidates are ranked."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.planner.engines.rules import MemoryModel, PlanningCase
from ropewalk.planner.parallel import world_size
from ropewalk.planner.roofline import Attained
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import DeviceMemory, MemoryEstimate


@dataclass(frozen=True, slots=True)
class Price:
    """``needed_bytes`` of ``usable_bytes`` at the upper end, on the device that lacks most or has least to
    spare; ``host_weights_bytes`` are weights on a host beside other devices, but for the embedding, which is
    always there. ``num_judged`` devices have a budget."""

    needed_bytes: int
    usable_bytes: int
    host_weights_bytes: int
    num_judged: int

    @property
    def shortfall_bytes(self) -> int:
        """What is lacking; negative for what is to spare."""
        return self.needed_bytes - self.usable_bytes


def price(case: PlanningCase, memory_model: MemoryModel | None = None) -> Price | None:
    """The price of a case as it stands; None without a budget. ``memory_model`` is the case's, where it was
    made before.

    Raises :class:`UsageError` where the engine would refuse it.
    """
    request = case.request
    memory_model = memory_model or case.memory_model()
    found = memory_model.estimate_memory(request.context_len, request.num_sequences)
    judged = [device for device in found.devices if device.usable_bytes is not None]
    if not judged:
        return None
    tightest = max(judged, key=lambda device: device.high_bytes - (device.usable_bytes or 0))
    moved = host_weights(found, case.shape)
    return Price(tightest.high_bytes, tightest.usable_bytes or 0, moved, len(judged))


def host_weights(found: MemoryEstimate, shape: ModelShape) -> int:
    """Bytes of weights on a host beside other devices, but for the embedding."""
    if len(found.devices) == 1:
        return 0
    hosts = [device for device in found.devices if device.device.startswith("cpu")]
    kept = sum(map(_weights, hosts)) - shape.weights.embedding if hosts else 0
    return max(0, kept)


def attained_of(case: PlanningCase, host_weights_bytes: int) -> Attained | None:
    """What the engine reaches of the device's figures; None where they are not all of the story: several
    devices, or weights on the host."""
    kind = case.machine.memory_kind
    if kind is None or host_weights_bytes or world_size(case.request) > 1:
        return None
    return case.rules.ATTAINED.get(kind)


def _weights(device: DeviceMemory) -> int:
    return sum(term.bytes for term in device.terms if term.name == "weights")
