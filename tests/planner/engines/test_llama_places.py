"""llama.cpp over RPC servers: layers, cache and weights per device as measured (b11434)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.planner.models import llama_8b, smollm2

from ropewalk.errors import UsageError
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.inspector.records import Inspection
from ropewalk.planner.machine import Machine
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import DeviceShare, Plan, PlanRequest
from ropewalk.units import GIB, MIB

ONE, TWO = ("127.0.0.1:18600",), ("127.0.0.1:18600", "127.0.0.1:18601")


def plan(model: Inspection, *, gpu: bool = False, **options: Any) -> Plan:
    request = PlanRequest(4096, "llama-server", **options)
    return make_plan(model, request, machine=Machine(kind="gpu" if gpu else "cpu"))


def mib(count: int) -> float:
    return round(count / MIB, 2)


@pytest.fixture(scope="module")
def q4(request: pytest.FixtureRequest) -> Inspection:
    path: Path = request.getfixturevalue("smollm2")
    return inspect_checkpoint(open_checkpoint(str(path)))


# SmolLM2 Q4_1, -c 4096 -np 1: KV MiB, weights MiB, compute MiB of each device. With -ngl 15 the server maps
# the whole file (92.10 MiB), of which the host's blocks and the embedding are 62.51.
MEASURED: list[tuple[dict[str, Any], list[tuple[float, float, float]]]] = [
    ({}, [(90, 92.10, 18.64)]),
    ({"rpc_servers": ONE, "gpu_layers": 15}, [(42, 58.28, 15.26), (48, 62.51, 18.64)]),
    (
        {"rpc_servers": TWO, "tensor_split": (1.0, 1.0)},
        [(48, 33.82, 43.05), (42, 58.28, 32.91), (0, 28.69, 27.32)],
    ),
    (
        {"rpc_servers": TWO, "tensor_split": (3.0, 1.0)},
        [(72, 50.73, 43.05), (18, 41.37, 32.91), (0, 28.69, 27.32)],
    ),
]


@pytest.mark.parametrize(("options", "devices"), MEASURED)
def test_devices_as_measured(
    q4: Inspection, options: dict[str, Any], devices: list[tuple[float, float, float]]
) -> None:
    found = plan(q4, **options)
    shares = found.memory.per_device
    assert [(share.kv_bytes / MIB, mib(share.weights_bytes)) for share in shares] == [
        (kv, weights) for kv, weights, _ in devices
    ]
    compute = found.memory.term("compute_buffer")
    assert compute is not None
    assert (
        compute.low_bytes <= sum(size for *_, size in devices) * MIB + 5243 <= compute.high_bytes + 5243 * 2
    )


def test_where_the_output_is() -> None:
    """On the last device with blocks; a tied embedding is copied to it and stays on the host."""
    found = plan(smollm2(), rpc_servers=TWO, tensor_split=(1.0, 1.0))
    seen = [
        (s.device, s.place.embedding, s.place.head, s.place.node) for s in found.memory.per_device if s.place
    ]
    assert seen == [
        ("rpc:127.0.0.1:18600", False, False, 1),
        ("rpc:127.0.0.1:18601", True, True, 2),
        ("cpu", True, False, 0),
    ]
    untied = plan(llama_8b(), rpc_servers=TWO)
    assert [s.place.embedding for s in untied.memory.per_device if s.place] == [False, False, True]


def test_gpus_of_this_machine_come_behind_the_servers() -> None:
    found = plan(smollm2(), gpu=True, rpc_servers=ONE, gpus_per_node=2, tensor_split=(1.0, 0.0, 1.0))
    layers = {share.device: share.layers for share in found.memory.per_device}
    assert layers == {"rpc:127.0.0.1:18600": (0, 16), "gpu:0": (0, 0), "gpu:1": (16, 30), "cpu": (0, 0)}


def test_without_shares_they_are_the_memory() -> None:
    """As by free memory: 3 to 1 gives 24 and 6 of 30 blocks; every device is judged by its own budget."""
    found = plan(smollm2(), rpc_servers=TWO, node_memory_bytes=(GIB, 3 * GIB, GIB))
    layers = [share.layers for share in found.memory.per_device]
    assert layers == [(0, 24), (24, 30), (0, 0)]
    budgets = [share.place.budget_bytes for share in found.memory.per_device if share.place]
    assert budgets == [3 * GIB, GIB, GIB]
    assert found.fit.fits is True


def test_each_device_by_its_own_budget() -> None:
    found = plan(smollm2(), rpc_servers=ONE, node_memory_bytes=(2 * GIB, 100 * MIB))
    fits: dict[str, bool | None] = {share.device: share.fits for share in found.memory.per_device}
    assert fits == {"rpc:127.0.0.1:18600": False, "cpu": True}
    (finding,) = [finding for finding in found.findings if finding.code == "does_not_fit"]
    assert finding.where["device"] == "rpc:127.0.0.1:18600"
    assert finding.where["usable_bytes"] == 100 * MIB
    assert tightest(found).device == "rpc:127.0.0.1:18600"


def tightest(found: Plan) -> DeviceShare:
    return next(share for share in found.memory.per_device if share.place and share.place.tightest)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tensor_split": (1.0, 1.0)}, "does not divide the devices of the plan: none"),
        (
            {"rpc_servers": ONE, "tensor_split": (1.0, 1.0)},
            "does not divide the devices of the plan: rpc:127",
        ),
        ({"rpc_servers": ONE, "tensor_split": (-1.0,)}, "does not divide"),
        ({"rpc_servers": ONE, "tensor_split": (0.0,)}, "does not divide"),
        ({"rpc_servers": ONE, "tensor_split": (float("nan"),)}, "does not divide"),
        ({"rpc_servers": ("somewhere",)}, "'somewhere' is no HOST:PORT"),
        ({"rpc_servers": ONE, "node_memory_bytes": (GIB,)}, "1 sizes of memory for this machine and 1 RPC"),
        ({"nodes": 2}, "llama-server does not support --nodes"),
        ({"data_parallel": 2}, "llama-server does not support --data-parallel"),
        ({"layer_partition": (15, 15)}, "llama-server does not support --layer-partition"),
        (
            {"memory_bytes": GIB, "gpus_per_node": 2, "fit": "nodes"},
            "llama-server does not support --fit nodes",
        ),
    ],
)
def test_splits_that_are_none(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        plan(smollm2(), **options)
