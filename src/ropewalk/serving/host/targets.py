"""What a choice is made for: the card or the size that is named, else this machine's device, per engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ropewalk.engines import EngineName
from ropewalk.errors import UsageError
from ropewalk.planner.choose import Target
from ropewalk.planner.plan import with_cards
from ropewalk.planner.records import PlanRequest
from ropewalk.serving.host.probe import Host, host_device, machine_of
from ropewalk.units import format_bytes

Hosts = Callable[[EngineName], Host]


@dataclass(frozen=True, slots=True)
class ChosenFor:
    """The engines with what each is asked and given, and the device in words."""

    targets: tuple[Target, ...]
    device: str


def choice_targets(request: PlanRequest, engines: Sequence[EngineName], hosts: Hosts) -> ChosenFor:
    """The targets of a choice, ``request`` asked of each engine.

    A card or a size stands for a GPU unless ``device`` says otherwise; engines are planned for in the version
    that is installed here, as a plan is. Raises :class:`UsageError` for a card that is not known, and where
    no engine can use a device of this machine.
    """
    named = request.gpu is not None or request.memory_bytes is not None
    if named and request.device == "auto":
        request = replace(request, device="cuda")
    found = [
        (target, name)
        for engine in dict.fromkeys(engines)
        for target, name in _targets(replace(request, engine=engine), hosts(engine), named=named)
    ]
    if not found:
        raise UsageError(
            f"{', '.join(engines)} can use no device of this machine: choose for another with --gpu NAME or "
            "--memory SIZE",
            where={"engines": list(engines)},
        )
    return ChosenFor(tuple(target for target, _ in found), found[0][1])


def _targets(request: PlanRequest, here: Host, *, named: bool) -> list[tuple[Target, str]]:
    if request.engine_version is None and here.build is not None:
        request = replace(request, engine_version=here.build.version)
    if named:
        request, machine = with_cards(request, machine_of(request, here))
        size = f"a device of {format_bytes(request.memory_bytes or 0)}"
        return [(Target(request, machine), (request.gpu and machine.name) or size)]
    device = host_device(request, here)
    if device is None:
        return []
    budget = device.free_bytes or device.memory_bytes
    if budget is None:
        return []
    machine = machine_of(request, here)
    asked = replace(request, device=device.id, memory_bytes=budget)
    return [(Target(asked, machine), f"this machine ({device.name}, {format_bytes(budget)} free)")]
