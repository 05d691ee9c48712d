"""Several servers on one device: what the planned ones hold is not there for the next."""

from __future__ import annotations

import pytest
from tests.planner.models import smollm2

from ropewalk.errors import UsageError
from ropewalk.planner.beside import beside, held_bytes
from ropewalk.planner.machine import Machine
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.units import GIB

GPU = Machine(kind="gpu", memory_bytes=24 * GIB)


def llama(**options: object) -> PlanRequest:
    return PlanRequest(8192, "llama-server", device="cuda", memory_bytes=24 * GIB, **options)  # type: ignore[arg-type]


def planned(request: PlanRequest) -> Plan:
    return make_plan(smollm2(), request, machine=GPU)


def test_a_budget_is_less_by_what_the_others_hold() -> None:
    first = planned(llama())
    held = held_bytes(first, "gpu")
    assert held == first.memory.per_device[0].high_bytes
    request, found = beside(smollm2(), llama(), [first, first], GPU)
    assert request.memory_bytes == 24 * GIB - 2 * held
    assert [finding.where["held_bytes"] for finding in found] == [2 * held]


def test_a_share_of_the_device_is_made_smaller() -> None:
    """vLLM takes its part of the whole card, and refuses to start where that is not free."""
    other = planned(llama(gpus_per_node=1))
    request, _ = beside(smollm2(), PlanRequest(8192, "vllm", memory_bytes=GIB, device="cuda"), [other], GPU)
    assert request.memory_bytes == GIB
    assert request.gpu_memory_utilization == (GIB - held_bytes(other, "gpu")) * 100 // GIB / 100


def test_a_pool_that_takes_what_is_left_holds_its_share() -> None:
    served = planned(PlanRequest(8192, "vllm", memory_bytes=24 * GIB, device="cuda"))
    assert held_bytes(served, "gpu") == served.fit.usable_bytes
    assert held_bytes(served, "cpu") == 0


def test_what_cannot_be_shared() -> None:
    first = planned(llama())
    with pytest.raises(UsageError, match="nothing is left"):
        beside(
            smollm2(), PlanRequest(8192, "llama-server", device="cuda", memory_bytes=GIB // 8), [first], GPU
        )
    with pytest.raises(UsageError, match="--gpu NAME or --memory SIZE"):
        beside(smollm2(), PlanRequest(8192, "llama-server", device="cuda"), [first], Machine())
