"""Devices of a plan beside those that llama-server prints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ropewalk.planner.records import DeviceShare, Plan, PlanRequest
from ropewalk.serving.engines.llama_cpp.log import parse
from ropewalk.serving.observed_shares import share_findings, shares_seen
from ropewalk.serving.server_report import ServerReport
from ropewalk.units import MIB

MakePlan = Callable[..., Plan]
# llama-server b11434 on SmolLM2-135M Q4_1, -c 4096, two RPC servers with -ts 3,1, measured.
LOG = """
load_tensors: CPU_Mapped model buffer size = 28.69 MiB
load_tensors: RPC0[127.0.0.1:18600] model buffer size = 50.73 MiB
load_tensors: RPC0[127.0.0.1:18601] model buffer size = 41.37 MiB
llama_kv_cache: RPC0[127.0.0.1:18600] KV buffer size = 72.00 MiB
llama_kv_cache: RPC0[127.0.0.1:18601] KV buffer size = 18.00 MiB
"""
REPORT = ServerReport("m", 4096, 1, buffers=parse(LOG.splitlines()).buffers)


@pytest.fixture
def plan(make_plan: MakePlan) -> Plan:
    """24 layers on the first server, 6 on the second."""
    servers = ("127.0.0.1:18600", "127.0.0.1:18601")
    request = PlanRequest(context_len=4096, engine="llama-server", rpc_servers=servers)
    plan = make_plan(request, checkpoint="m.gguf")
    shares = tuple(
        DeviceShare(device, 0, cache * MIB, 0, None, (0, 1))
        for device, cache in (("rpc:0", 72), ("rpc:1", 18), ("cpu", 0))
    )
    return replace(plan, memory=replace(plan.memory, per_device=shares))


def test_each_device_has_what_was_printed_for_it(plan: Plan) -> None:
    first, second, host = shares_seen(plan, REPORT)
    assert (first.name, second.name, host.name) == ("127.0.0.1:18600", "127.0.0.1:18601", "cpu")
    assert first.kv_cache is not None
    assert first.kv_cache.bytes == 72 * MIB
    assert second.weights is not None
    assert second.weights.bytes == round(41.37 * MIB)
    assert host.kv_cache is None
    assert host.weights is not None
    assert list(share_findings(plan, REPORT)) == []


def test_another_split_than_planned_is_told(plan: Plan) -> None:
    first, second, host = plan.memory.per_device
    swapped = (replace(first, kv_bytes=45 * MIB), replace(second, kv_bytes=45 * MIB), host)
    plan = replace(plan, memory=replace(plan.memory, per_device=swapped))
    one, other = share_findings(plan, REPORT)
    assert (one.code, one.severity) == ("printed_differs", "warning")
    assert one.where == {"device": "127.0.0.1:18600", "planned": 45 * MIB, "printed": 72 * MIB}
    assert other.where["printed"] == 18 * MIB
