"""Checks before a start over several machines: what this one has to hold, and no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ropewalk.engines import EngineBuild
from ropewalk.inspector.records import CheckpointSummary, Inspection
from ropewalk.planner.records import DeviceShare, Plan, PlanRequest, RankPlace
from ropewalk.serving.engines import launch_of
from ropewalk.serving.host.devices import Device
from ropewalk.serving.preflight import PreflightItem, preflight
from ropewalk.serving.process.ports import free_port
from ropewalk.serving.records import Topology
from ropewalk.units import GIB

MakePlan = Callable[..., Plan]
Checked = Callable[..., PreflightItem]
VLLM = EngineBuild(name="vllm", engine="vllm", version="0.32.0", path="vllm")
ON_CPU = replace(VLLM, devices=("cpu",))
ELSEWHERE = Topology(("127.0.0.1", "203.0.113.9"))
HERE_TWICE = Topology(("127.0.0.1", "127.0.0.2"))
SUMMARY = CheckpointSummary("m", "model", "safetensors", (), 0, 0, 0, None, {})
INSPECTION = Inspection(SUMMARY, {}, (), None, None, ())


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One GPU with 20 GiB free, 8 GiB of host memory, one NUMA node."""
    devices = (
        Device("cuda:0", "gpu", "Imaginary", 24 * GIB, 20 * GIB),
        Device("cpu", "cpu", "Imaginary", 16 * GIB, 8 * GIB),
    )
    for module in ("preflight", "engines.vllm.devices"):
        monkeypatch.setattr(f"ropewalk.serving.{module}.find_devices", lambda: devices)
    monkeypatch.setattr("ropewalk.serving.preflight.known_flags", lambda build: None)
    monkeypatch.setattr("ropewalk.serving.engines.vllm.devices._numa_nodes", lambda: 1)


@pytest.fixture
def checked(make_plan: MakePlan) -> Checked:
    """One check of a plan for two ranks on two nodes, each of a rank's bytes."""

    def check(
        name: str,
        spread: Topology,
        *shares: DeviceShare,
        build: EngineBuild = VLLM,
        threads: int | None = None,
    ) -> PreflightItem:
        request = PlanRequest(context_len=512, engine="vllm", pipeline_parallel=2, nodes=2)
        plan = make_plan(request, checkpoint="m")
        plan = replace(plan, memory=replace(plan.memory, per_device=shares))
        spread = replace(spread, master_port=free_port())
        spec = launch_of(plan, build=build, port=0, threads=threads, spread=spread)
        items = preflight(plan, spec, INSPECTION, spread=spread)
        return next(item for item in items if item.name == name)

    return check


def rank(node: int, size: int, device: str = "cpu") -> DeviceShare:
    return DeviceShare(device, 0, 0, size, None, (0, 1), place=RankPlace(node=node))


def test_what_other_nodes_hold_is_not_asked_of_this_machine(checked: Checked) -> None:
    ranks = rank(0, 6 * GIB), rank(1, 6 * GIB)
    assert checked("memory", ELSEWHERE, *ranks).message.startswith("up to 6.00 GiB on cpu, 8.00 GiB are free")
    both = checked("memory", HERE_TWICE, *ranks)
    assert both.ok is False
    assert both.message.startswith("up to 12.00 GiB on cpu")
    launched = replace(HERE_TWICE, launcher="env {argv}")
    assert checked("memory", launched, *ranks).ok is True
    assert checked("memory", Topology(executor="ray", ray_address="auto"), *ranks).ok is None


def test_devices_are_counted_for_the_nodes_that_are_here(checked: Checked) -> None:
    one = checked("devices", ELSEWHERE)
    assert (one.ok, one.message) == (True, "1 rank here, 1 GPU")
    both = checked("devices", HERE_TWICE)
    assert (both.ok, both.message) == (False, "2 ranks here, 1 GPU")
    ray = checked("devices", Topology(executor="ray", ray_address="auto"))
    assert (ray.ok, ray.message) == (None, "2 ranks, for which Ray finds the devices")


def test_each_node_binds_its_own_ranks_on_a_processor(checked: Checked) -> None:
    ranks = rank(0, GIB), rank(1, GIB)
    assert checked("devices", HERE_TWICE, *ranks, build=ON_CPU).message == "1 rank, 1 NUMA node"
    unbound = checked("devices", HERE_TWICE, *ranks, build=ON_CPU, threads=1)
    assert (unbound.ok, unbound.message) == (True, "1 rank, not bound to cores")


def test_nodes_come_last_among_the_checks(checked: Checked) -> None:
    item = checked("nodes", HERE_TWICE)
    assert (item.ok, item.message) == (True, "2 nodes are started and watched from here")
