"""What a user says of the devices that a command is judged for."""

from __future__ import annotations

from dataclasses import replace

from ropewalk.errors import UsageError
from ropewalk.planner.cards import find_cards
from ropewalk.planner.machine import DeviceKind, Machine
from ropewalk.units import MIB

_KINDS = ("auto", "cpu", "gpu")


def target_machine(
    *, gpu: str | None = None, memory_bytes: int | None = None, device: str = "auto"
) -> Machine:
    """A card by its name, the memory of each device, its kind; what is not said is unknown.

    ``memory_bytes`` goes before that of the card. Raises :class:`UsageError` for an unknown card or kind, and
    for a memory that holds no model.
    """
    if device not in _KINDS:
        raise UsageError(
            f"device must be one of {', '.join(_KINDS)}, not {device!r}",
            where={"field": "device", "value": device},
        )
    if memory_bytes is not None and memory_bytes < MIB:
        raise UsageError(
            f"{memory_bytes} bytes of memory hold no model; write a size such as 24GiB",
            where={"field": "memory_bytes", "value": memory_bytes, "least": MIB},
        )
    if gpu is None:
        kind: DeviceKind | None = None if device == "auto" else "cpu" if device == "cpu" else "gpu"
        return Machine(kind=kind, memory_bytes=memory_bytes)
    if device == "cpu":
        raise UsageError("--gpu names a card, --device cpu has none", where={"flag": "--gpu", "value": gpu})
    machine = find_cards(gpu).machine()
    return machine if memory_bytes is None else replace(machine, memory_bytes=memory_bytes)
