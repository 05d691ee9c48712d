"""What of this machine a plan is told: versions, devices, and when neither is what is planned for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.inspector.made import QWEN3_8B
from tests.inspector.readers.files import write_json

from ropewalk.core import inspect
from ropewalk.engines import EngineBuild
from ropewalk.errors import EngineMissingError
from ropewalk.inspector.records import Inspection
from ropewalk.measuring.arms import plan_arm
from ropewalk.planner.machine import Machine
from ropewalk.planner.records import PlanRequest
from ropewalk.report.verdict import verdict
from ropewalk.serving.engines.llama_cpp import find as llama_find
from ropewalk.serving.host import probe as here_module
from ropewalk.serving.host.devices import Device
from ropewalk.serving.host.probe import Host, host_for, machine_of, plan_for_host, probe_host
from ropewalk.units import GIB

GPU = Device("cuda:0", "gpu", "Imaginary", 24 * GIB, 20 * GIB)
CPU = Device("cpu", "cpu", "Imaginary", 64 * GIB, 48 * GIB)
EMBEDDED = EngineBuild("embedded", "llama-server", "2026.10.11549", "python")
VLLM = EngineBuild("vllm", "vllm", "0.32.0", "/usr/bin/vllm")
VLLM_CPU = replace(VLLM, devices=("cpu",))
ON_CPU = Machine("cpu", 64 * GIB, 48 * GIB, name="Imaginary", is_here=True)
ON_GPU = Machine("gpu", 24 * GIB, 20 * GIB, name="Imaginary", is_here=True)
ELSEWHERE_TOO = replace(ON_GPU, is_here=False)  # more devices than are here


@pytest.fixture
def qwen3(tmp_path: Path) -> Inspection:
    write_json(tmp_path / "config.json", QWEN3_8B)
    return inspect(tmp_path)


@pytest.mark.parametrize(
    ("build", "devices", "request_", "machine"),
    [
        (EMBEDDED, (CPU,), PlanRequest(4096, "llama-server"), ON_CPU),
        (VLLM, (GPU, CPU), PlanRequest(4096, "vllm"), ON_GPU),
        (VLLM, (GPU, CPU), PlanRequest(4096, "vllm", device="cpu"), ON_CPU),
        (VLLM, (GPU, CPU), PlanRequest(4096, "vllm", device="cuda:1"), Machine()),
        # Nobody serves with vLLM on a processor unless it was built for one.
        (VLLM, (CPU,), PlanRequest(4096, "vllm"), Machine()),
        (None, (CPU,), PlanRequest(4096, "vllm"), Machine()),
        (VLLM_CPU, (CPU,), PlanRequest(4096, "vllm"), ON_CPU),
        (VLLM, (GPU, CPU), PlanRequest(4096, "vllm", memory_bytes=24 * GIB), ON_GPU),
        (VLLM, (GPU, CPU), PlanRequest(4096, "vllm", memory_bytes=80 * GIB), Machine()),
        (VLLM_CPU, (CPU,), PlanRequest(4096, "vllm", memory_bytes=80 * GIB), Machine()),
        (VLLM, (GPU, CPU), PlanRequest(4096, "vllm", tensor_parallel=2), ELSEWHERE_TOO),
        (VLLM, (GPU, GPU, CPU), PlanRequest(4096, "vllm", tensor_parallel=2), ON_GPU),
        (VLLM, (GPU, CPU), PlanRequest(4096, "vllm", nodes=2), ELSEWHERE_TOO),
    ],
)
def test_the_machine_that_is_planned_for(
    build: EngineBuild | None, devices: tuple[Device, ...], request_: PlanRequest, machine: Machine
) -> None:
    assert machine_of(request_, Host(build, devices)) == machine


@pytest.mark.parametrize(
    ("build", "devices", "options", "said"),
    [
        (EMBEDDED, (CPU,), {}, "on this machine's processor, 64.00 GiB"),
        (
            VLLM,
            (replace(GPU, free_bytes=24 * GIB), CPU),
            {},
            "on this machine's GPU (Imaginary) of 24.00 GiB",
        ),
        (EMBEDDED, (CPU,), {"memory_bytes": 32 * GIB}, "on the processor, 32.00 GiB"),
        (VLLM, (GPU, CPU), {"gpu": "L40S"}, "on 1 x L40S of 44.39 GiB"),
        (VLLM, (GPU, CPU), {"memory_bytes": 48 * GIB}, "on a GPU of 48.00 GiB"),
    ],
)
def test_the_verdict_names_whose_memory_it_is(
    qwen3: Inspection,
    build: EngineBuild,
    devices: tuple[Device, ...],
    options: dict[str, Any],
    said: str,
) -> None:
    plan = plan_for_host(qwen3, PlanRequest(8192, build.engine, **options), Host(build, devices))
    assert verdict(plan).parts[0] == f"8,192 tokens x 1 sequence {said}"


def test_a_machine_that_is_unknown_is_not_judged(qwen3: Inspection) -> None:
    fit = plan_for_host(qwen3, PlanRequest(8192, "vllm"), Host(None, (CPU,))).fit
    assert (fit.fits, fit.budget_bytes, fit.budget_from) == (None, None, None)


def test_what_fits_but_not_now_is_a_warning(qwen3: Inspection) -> None:
    busy = replace(CPU, free_bytes=GIB)
    plan = plan_for_host(qwen3, PlanRequest(8192, "llama-server"), Host(EMBEDDED, (busy,)))
    (found,) = [one for one in plan.findings if one.code == "memory_in_use"]
    assert (plan.fit.fits, found.severity, found.where["free_bytes"]) == (True, "warning", GIB)


def test_gpus_count_only_for_an_engine_that_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here_module, "find_devices", lambda: (GPU, CPU))
    monkeypatch.setattr(llama_find, "with_devices", lambda build: build)
    assert host_for(EMBEDDED).devices == (CPU,)
    assert host_for(VLLM_CPU).devices == (CPU,)
    assert host_for(VLLM).devices == (GPU, CPU)
    assert host_for(None).devices == (GPU, CPU)
    monkeypatch.setattr(llama_find, "with_devices", lambda build: replace(build, devices=("CUDA0",)))
    assert host_for(EMBEDDED).devices == (GPU, CPU)


def test_a_missing_engine_is_no_error_unless_it_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(engine: str, *, path: str | None) -> EngineBuild:
        raise EngineMissingError("none")

    monkeypatch.setattr(here_module, "pick_engine", missing)
    assert probe_host("vllm").build is None
    with pytest.raises(EngineMissingError):
        probe_host("vllm", path="/bin/true")


def test_the_installed_version_is_planned_for_unless_another_is_asked(qwen3: Inspection) -> None:
    # vLLM before 0.30 multiplies the length itself; the override that 0.32 needs is not written for it.
    old = Host(replace(VLLM, version="0.9.2"), (GPU, CPU))
    request = PlanRequest(65536, "vllm")
    assert plan_for_host(qwen3, request, old).request.engine_version == "0.9.2"
    planned = plan_for_host(qwen3, replace(request, engine_version="0.33.0"), old)
    assert planned.request.engine_version == "0.33.0"
    overrides = planned.rope.vllm_hf_overrides
    assert overrides is not None
    assert "rope_parameters" in overrides
    assert "rope_parameters" not in (plan_for_host(qwen3, request, old).rope.vllm_hf_overrides or {})


def test_a_plan_for_a_gpu_is_not_given_to_an_engine_without(qwen3: Inspection) -> None:
    there = Host(VLLM_CPU, (CPU,))
    on_cpu = plan_for_host(qwen3, PlanRequest(4096, "vllm"), there)
    assert on_cpu.launch is not None
    assert "--kv-cache-memory-bytes" in on_cpu.launch.argv
    assert on_cpu.memory.kv.block_size == 128
    elsewhere = plan_for_host(qwen3, PlanRequest(4096, "vllm", device="cuda:0"), there)
    assert elsewhere.launch is not None
    assert "--gpu-memory-utilization" in elsewhere.launch.argv
    assert elsewhere.memory.kv.block_size == 16


def test_what_a_request_names_beside_the_checkpoint_is_priced_wherever_it_is_planned(
    qwen3: Inspection,
) -> None:
    """By a plan and by an arm of a measurement alike; ``read`` is asked for nothing else."""
    asked: list[str] = []

    def read(source: str) -> Inspection:
        asked.append(source)
        return inspect(source)

    here, source = Host(VLLM, (CPU,)), qwen3.checkpoint.source
    alone = plan_for_host(qwen3, PlanRequest(4096, "vllm"), here, read=read)
    assert (alone.memory.term("draft_model"), asked) == (None, [])
    drafted = plan_for_host(qwen3, PlanRequest(4096, "vllm", draft=source), here, read=read)
    assert drafted.memory.term("draft_model") is not None
    assert asked == [source]
    arm = plan_arm(qwen3, "shipped", context_len=4096, here=here, options={"draft": source})
    assert arm.plan.memory.term("draft_model") == drafted.memory.term("draft_model")
