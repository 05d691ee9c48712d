"""Plans for the engine and the devices of this machine: what the planner, which looks at none, is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypedDict

from ropewalk.engines import EngineBuild, EngineName, engine_of
from ropewalk.errors import EngineMissingError
from ropewalk.findings import by_severity
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.inspector.records import Inspection
from ropewalk.planner.calibration import Calibration
from ropewalk.planner.machine import Machine
from ropewalk.planner.parallel import world_size
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.planner.rope.versions import require_version
from ropewalk.serving.engines import pick_engine, with_launch
from ropewalk.serving.engines.find import finder_of
from ropewalk.serving.formats import format_finding
from ropewalk.serving.host.devices import Device, find_devices
from ropewalk.serving.records import SINGLE_NODE, Topology

Read = Callable[[str], Inspection]


@dataclass(frozen=True, slots=True)
class Host:
    """The engine that would serve on this machine, None where there is none, and its devices.

    With ``is_elsewhere`` they stand for those of other machines, whose memory is not known.
    """

    build: EngineBuild | None
    devices: tuple[Device, ...]
    is_elsewhere: bool = False


def probe_host(engine: EngineName, *, path: str | None = None) -> Host:
    """Find the engine, at ``path`` if given, and the devices that it can use.

    Raises :class:`EngineMissingError` where ``path`` is no such engine.
    """
    try:
        return host_for(pick_engine(engine, path=path))
    except EngineMissingError:
        if path is not None:
            raise
        return host_for(None)


def host_for(build: EngineBuild | None) -> Host:
    """The devices of this machine, GPUs only where this engine can use them.

    llama.cpp is asked for its devices, which takes a moment; of vLLM the build says it.
    """
    devices = find_devices()
    if build is not None and len(devices) > 1 and not finder_of(build.engine).uses_gpus(build):
        devices = tuple(device for device in devices if device.kind == "cpu")
    return Host(build, devices)


def _read(source: str) -> Inspection:
    return inspect_checkpoint(open_checkpoint(source))


class Companions(TypedDict):
    """Checkpoints beside the one that is served, under the names that :func:`make_plan` takes them by."""

    draft: Inspection | None
    projector: Inspection | None


def companions(request: PlanRequest, *, read: Read = _read) -> Companions:
    """What the request names beside the checkpoint, inspected. Raises :class:`CheckpointError`."""
    named = (request.draft, request.projector)
    draft, projector = (read(source) if source else None for source in named)
    return {"draft": draft, "projector": projector}


def plan_for_host(
    inspection: Inspection,
    request: PlanRequest,
    here: Host,
    *,
    calibration: Calibration | None = None,
    spread: Topology = SINGLE_NODE,
    read: Read = _read,
) -> Plan:
    """Plan for what is here, with the command for it.

    Where the request names no version it is planned for the one installed. ``auto`` is the first GPU,
    else the processor; without a GPU vLLM is planned for one elsewhere, unless the vLLM that is installed
    serves on the processor. Its memory is the budget where none is asked for; one larger than the device is
    for another machine. ``calibration`` is
    :func:`ropewalk.measuring.calibrate.find_calibration`'s; ``spread`` has the addresses of several machines;
    ``read`` inspects what the request names beside the checkpoint.
    """
    if request.engine_version is None and here.build is not None:
        request = replace(request, engine_version=here.build.version)
    else:
        require_version(request.engine_version)
    plan = make_plan(
        inspection,
        request,
        machine=machine_of(request, here),
        **companions(request, read=read),
        calibration=calibration,
    )
    wrong = format_finding(inspection, request.engine)
    if wrong is not None:
        return replace(plan, findings=by_severity((*plan.findings, wrong)))
    return with_launch(plan, build=here.build, spread=spread)


def machine_of(request: PlanRequest, here: Host) -> Machine:
    """What is known of the device that is planned for; nothing where it is not of this machine."""
    device = host_device(request, here)
    if device is None:
        return Machine()
    return Machine(
        kind=device.kind,
        memory_bytes=device.memory_bytes,
        free_bytes=device.free_bytes,
        name=device.name,
        is_here=_holds_all(request, device, here),
    )


def _holds_all(request: PlanRequest, device: Device, here: Host) -> bool:
    """Whether this machine has all devices that are asked for: ranks on a processor share its memory, and of
    other machines nothing is known."""
    alike = sum(one.kind == device.kind for one in here.devices)
    wanted = max(world_size(request), request.gpus_per_node or 1)
    several = here.is_elsewhere or request.nodes > 1 or bool(request.rpc_servers)
    return not several and wanted <= alike


def host_device(request: PlanRequest, here: Host) -> Device | None:
    """The device that is planned for; None where it is not of this machine, or has less than the budget."""
    device = _device(request, here)
    budget = max(request.node_memory_bytes, default=request.memory_bytes or 0)
    if device is None or (device.memory_bytes is not None and budget > device.memory_bytes):
        return None
    return device


def _device(request: PlanRequest, here: Host) -> Device | None:
    if request.device != "auto":
        wanted = "cuda:0" if request.device in ("cuda", "gpu") else request.device
        return next((device for device in here.devices if device.id == wanted), None)
    first = here.devices[0]
    if first.kind == "cpu" and not engine_of(request.engine).plans_for_cpu and not _serves_on_cpu(here.build):
        return None
    return first


def _serves_on_cpu(build: EngineBuild | None) -> bool:
    return build is not None and build.devices == ("cpu",)
