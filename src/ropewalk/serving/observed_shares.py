"""What each device holds: planned, and printed by llama-server, which names its devices in its own way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ropewalk.findings import Finding
from ropewalk.planner.records import DeviceShare, Plan
from ropewalk.serving.engines.llama_cpp.rpc import server_of
from ropewalk.serving.server_report import PrintedBuffer, PrintedTerm, ServerReport, term_of

_NUMBERED = re.compile(r"^[A-Za-z]+(\d+)$")  # CUDA0, Vulkan1, Metal0


@dataclass(frozen=True, slots=True)
class ShareSeen:
    """A device's share of the plan beside what the engine printed for it; ``name`` is the RPC server's
    address where it is one. None where nothing was printed."""

    name: str
    share: DeviceShare
    weights: PrintedTerm | None
    kv_cache: PrintedTerm | None


def shares_seen(plan: Plan, report: ServerReport) -> tuple[ShareSeen, ...]:
    """One row per device of the plan; compute buffers of other devices follow no rule and are left out."""
    rows = []
    for share, server in _named(plan):
        here = [buffer for buffer in report.buffers if _is_of(buffer, share.device, server)]
        rows.append(
            ShareSeen(server or share.device, share, term_of(here, "weights"), term_of(here, "kv_cache"))
        )
    return tuple(rows)


def share_findings(plan: Plan, report: ServerReport) -> Iterator[Finding]:
    """Caches of a size that was not planned: without ``-ts`` the engine goes by the free memory it finds."""
    for seen in shares_seen(plan, report):
        planned, printed = seen.share.kv_bytes, seen.kv_cache
        size, rounding = (printed.bytes, printed.rounding_bytes) if printed else (0, 0)
        if abs(size - planned) > rounding:
            yield Finding(
                "printed_differs",
                "warning",
                f"{seen.name}: {planned:,} bytes of cache planned, {size:,} printed",
                {"device": seen.name, "planned": planned, "printed": size},
            )


def _named(plan: Plan) -> Iterator[tuple[DeviceShare, str | None]]:
    servers = iter(plan.request.rpc_servers)
    for share in plan.memory.per_device:
        yield share, next(servers, None) if share.device.startswith("rpc") else None


def _is_of(buffer: PrintedBuffer, device: str, server: str | None) -> bool:
    """A host's buffers are ``CPU``, ``CPU_Mapped`` or a GPU's pinned ``CUDA_Host``."""
    printed = server_of(buffer.device)
    if server is not None or printed is not None:
        return server == printed
    if device == "cpu":
        return buffer.device.startswith("CPU") or buffer.device.endswith("_Host")
    number = _NUMBERED.match(buffer.device)
    return number is not None and device == f"gpu:{number[1]}"
