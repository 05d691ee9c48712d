"""Facts about the machine, as values: the planner looks at no machine itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ropewalk.planner.records import PlanRequest

DeviceKind = Literal["cpu", "gpu"]
MemoryKind = Literal["gddr", "hbm", "unified"]


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known of the devices that will serve; None is unknown.

    ``memory_bytes`` and ``free_bytes`` are of one device, ``bandwidth`` in bytes per second and
    ``peak_flops`` in operations per second at the model's dtype: nominal figures give bounds only. ``name``
    is the card's, ``multiprocessors`` how many it has, ``count`` how many such devices there are.
    ``is_here`` says that it is the machine that this runs on, whose memory is the budget where none is asked
    for.
    """

    kind: DeviceKind | None = None
    memory_bytes: int | None = None
    free_bytes: int | None = None
    bandwidth: float | None = None
    peak_flops: float | None = None
    name: str | None = None
    multiprocessors: int | None = None
    is_here: bool = False
    memory_kind: MemoryKind | None = None
    count: int | None = None

    @property
    def is_hopper(self) -> bool:
        """Whether the card is of the generation of the H100."""
        return self._is_named("H100", "H200", "H800")

    @property
    def is_data_center_blackwell(self) -> bool:
        """Whether the card is of the generation of the B200 (compute capability 10)."""
        return self._is_named("B200", "B300")

    @property
    def is_small_blackwell(self) -> bool:
        """Whether the card is a Blackwell of workstations (compute capability 12)."""
        return self._is_named("RTX 50", "RTX-50", "RTX PRO", "GB10")

    def _is_named(self, *marks: str) -> bool:
        return self.name is not None and any(mark in self.name.upper() for mark in marks)


UNKNOWN = Machine()


def device_of(request: PlanRequest, machine: Machine, *, default: DeviceKind) -> DeviceKind:
    """CPU or GPU: as asked, else as the machine is, else as most use the engine."""
    if request.device == "auto":
        return machine.kind or default
    return "cpu" if request.device == "cpu" else "gpu"
