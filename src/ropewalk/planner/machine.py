"""Facts about the machine, as values: the planner looks at no machine itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ropewalk.planner.records import PlanRequest

DeviceKind = Literal["cpu", "gpu"]


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known of the devices that will serve; None is unknown.

    ``memory_bytes`` and ``free_bytes`` are of one device, ``bandwidth`` in bytes per second and
    ``peak_flops`` in operations per second at the model's dtype: nominal figures give bounds only.
    """

    kind: DeviceKind | None = None
    memory_bytes: int | None = None
    free_bytes: int | None = None
    bandwidth: float | None = None
    peak_flops: float | None = None


def device_of(request: PlanRequest, machine: Machine, *, default: DeviceKind) -> DeviceKind:
    """CPU or GPU: as asked, else as the machine is, else as most use the engine."""
    if request.device == "auto":
        return machine.kind or default
    return "cpu" if request.device == "cpu" else "gpu"
