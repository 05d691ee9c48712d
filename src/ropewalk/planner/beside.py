"""What is left of a device, and of the host, beside servers that are planned already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ropewalk.engines import engine_of
from ropewalk.errors import UsageError
from ropewalk.findings import Finding
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.machine import DeviceKind, Machine, device_of
from ropewalk.planner.model import shape_of
from ropewalk.planner.plan import with_cards
from ropewalk.planner.records import DeviceShare, Plan, PlanRequest
from ropewalk.units import format_bytes


def beside(
    inspection: Inspection, request: PlanRequest, others: Sequence[Plan], machine: Machine
) -> tuple[PlanRequest, tuple[Finding, ...]]:
    """The request with what ``others`` leave of each of its devices, and a finding that says so.

    An engine that takes a share of the whole device is given a smaller share, any other a smaller budget.
    Raises :class:`UsageError` where the device's memory is not known, or nothing is left.
    """
    if not others:
        return request, ()
    request, machine = with_cards(request, machine)
    total = request.memory_bytes or machine.memory_bytes
    where = {"flag": "--beside", "memory_bytes": total}
    if total is None:
        message = "--beside needs to know the device that is shared: --gpu NAME or --memory SIZE"
        raise UsageError(message, where=where)
    default: DeviceKind = "cpu" if engine_of(request.engine).plans_for_cpu else "gpu"
    kind = "gpu" if request.gpu else device_of(request, machine, default=default)
    held = sum(held_bytes(plan, kind) for plan in others)
    if held >= total:
        raise UsageError(
            f"the other servers hold {format_bytes(held)} of {format_bytes(total)}: nothing is left",
            where={**where, "held_bytes": held},
        )
    whole = replace(request, memory_bytes=total)
    usable = PlanningCase(shape_of(inspection), whole, machine).usable_bytes() or total
    if usable < total:  # a share of the whole
        left = min((total - held) * 100 // total, usable * 100 // total) / 100
        request = replace(whole, gpu_memory_utilization=left)
    else:
        request = replace(whole, memory_bytes=total - held)
    message = f"other servers hold {format_bytes(held)} of {format_bytes(total)}: planned for the rest"
    return request, (Finding("device_shared", "info", message, {**where, "held_bytes": held}),)


def held_bytes(plan: Plan, kind: DeviceKind) -> int:
    """What a planned server holds of its busiest device of this kind, at the upper end: all of its share
    where its cache takes what is left of that."""
    here = [share for share in plan.memory.per_device if _is(share, kind)]
    held = max((share.high_bytes or share.total_bytes for share in here), default=0)
    fills = plan.memory.kv.pool_bytes is not None and here
    return max(held, plan.fit.usable_bytes or 0) if fills else held


def _is(share: DeviceShare, kind: DeviceKind) -> bool:
    on_host = share.device.startswith("cpu")
    return on_host if kind == "cpu" else not on_host and not share.device.startswith("rpc:")
