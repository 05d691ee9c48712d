"""Checks before a start."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ropewalk.engines import EngineBuild
from ropewalk.findings import Finding
from ropewalk.inspector.records import CheckpointSummary, Fact, Format, Inspection
from ropewalk.planner.records import DeviceShare, Plan, PlanRequest
from ropewalk.serving.engines import launch_of
from ropewalk.serving.host.devices import Device
from ropewalk.serving.host.process_memory import LargeProcess
from ropewalk.serving.preflight import PreflightItem, preflight
from ropewalk.units import GIB

MakePlan = Callable[..., Plan]
EMBEDDED = EngineBuild(name="embedded", engine="llama-server", version="2026.10.11549", path="python")
VLLM = EngineBuild(name="vllm", engine="vllm", version="0.32.0", path="vllm")
CPU = Device("cpu", "cpu", "Imaginary", 16 * GIB, 8 * GIB)
GPUS = tuple(Device(f"cuda:{n}", "gpu", "Imaginary", 24 * GIB, 20 * GIB) for n in range(2))


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs and 8 GiB of free host memory."""
    for module in ("preflight", "engines.vllm.devices"):
        monkeypatch.setattr(f"ropewalk.serving.{module}.find_devices", lambda: (*GPUS, CPU))
    monkeypatch.setattr("ropewalk.serving.preflight.known_flags", lambda build: None)


def inspection_of(*findings: Finding, heads: int = 32) -> Inspection:
    summary = CheckpointSummary("m", "model", "gguf", (), 0, 0, 0, None, {})
    facts = {"num_attention_heads": Fact(heads, "config")}
    return Inspection(summary, facts, (), None, None, tuple(findings))


def share(device: str, size: int, *, high: int | None = None) -> DeviceShare:
    return DeviceShare(device, 0, 0, size, None, (0, 1), high)


def checked(
    name: str,
    plan: Plan,
    *,
    build: EngineBuild = EMBEDDED,
    port: int = 0,
    inspection: Inspection | None = None,
) -> PreflightItem:
    inspection = inspection or in_format(inspection_of(), plan.checkpoint)
    items = list(preflight(plan, launch_of(plan, build=build, port=port), inspection))
    assert [item.name for item in items] == [
        *("checkpoint", "tokenizer", "chat_template", "flags", "rope", "devices", "memory", "port")
    ]
    return next(item for item in items if item.name == name)


def in_format(inspection: Inspection, source: str) -> Inspection:
    """As if it were of the checkpoint at ``source``."""
    kind: Format = "gguf" if source.endswith(".gguf") else "safetensors"
    return replace(inspection, checkpoint=replace(inspection.checkpoint, format=kind, source=source))


@pytest.fixture
def llama_plan(make_plan: MakePlan, smollm2: Path) -> Plan:
    return make_plan(PlanRequest(context_len=512, engine="llama-server"), checkpoint=str(smollm2))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of safetensors with a tokenizer and a template in its older place."""
    folder = tmp_path / "Qwen3-8B"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    return folder


@pytest.fixture
def vllm_plan(make_plan: MakePlan, folder: Path) -> Plan:
    return make_plan(PlanRequest(context_len=512, engine="vllm"), checkpoint=str(folder))


def test_a_gguf_file_for_llama_server(llama_plan: Plan) -> None:
    assert checked("checkpoint", llama_plan) == PreflightItem("checkpoint", True, "embedded reads GGUF")
    assert checked("tokenizer", llama_plan).message == "in the file (gpt2)"
    assert checked("chat_template", llama_plan).ok is True


def test_a_folder_of_safetensors_for_llama_server_is_to_be_converted(
    make_plan: MakePlan, folder: Path
) -> None:
    plan = make_plan(PlanRequest(context_len=512, engine="llama-server"), checkpoint=str(folder))
    item = checked("checkpoint", plan)
    assert item.ok is False
    assert f"python convert_hf_to_gguf.py {folder} --outtype bf16" in item.message


def test_a_folder_with_a_gguf_file_is_served_by_that_file(make_plan: MakePlan, tmp_path: Path) -> None:
    for part in (1, 2):
        (tmp_path / f"model-0000{part}-of-00002.gguf").touch()
    first = str(tmp_path / "model-00001-of-00002.gguf")
    for named in (tmp_path, tmp_path / "model-00002-of-00002.gguf"):
        plan = make_plan(PlanRequest(context_len=512, engine="llama-server"), checkpoint=str(named))
        assert launch_of(plan, build=EMBEDDED).model == first


def test_a_gguf_file_for_vllm(make_plan: MakePlan, smollm2: Path) -> None:
    plan = make_plan(PlanRequest(context_len=512, engine="vllm"), checkpoint=str(smollm2))
    item = checked("checkpoint", plan, build=VLLM)
    assert item.ok is False
    assert "--engine llama-server" in item.message


def test_a_folder_for_vllm(vllm_plan: Plan) -> None:
    assert checked("checkpoint", vllm_plan, build=VLLM).ok is True
    assert checked("tokenizer", vllm_plan, build=VLLM).message == "tokenizer_config.json beside the weights"
    assert checked("chat_template", vllm_plan, build=VLLM).ok is True


def test_a_base_model_has_no_template_and_that_is_no_mistake(vllm_plan: Plan, folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{}")
    assert checked("chat_template", vllm_plan, build=VLLM).ok is None


def test_a_checkpoint_without_a_tokenizer(vllm_plan: Plan, folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    item = checked("tokenizer", vllm_plan, build=VLLM)
    assert (item.ok, item.message[:8]) == (False, "none of ")


def test_a_hub_id_is_not_looked_at(make_plan: MakePlan) -> None:
    plan = make_plan(PlanRequest(context_len=512, engine="vllm"), checkpoint="Qwen/Qwen3-8B")
    assert checked("checkpoint", plan, build=VLLM).ok is None
    assert checked("tokenizer", plan, build=VLLM).ok is None


def test_a_checkpoint_with_a_part_missing(llama_plan: Plan) -> None:
    missing = Finding("missing_shards", "error", "1 of 2 parts is missing")
    broken = in_format(inspection_of(missing), llama_plan.checkpoint)
    item = checked("checkpoint", llama_plan, inspection=broken)
    assert (item.ok, item.message) == (False, "1 of 2 parts is missing")


def test_a_missing_file(make_plan: MakePlan) -> None:
    plan = make_plan(PlanRequest(context_len=512, engine="llama-server"), checkpoint="/no/model.gguf")
    assert checked("checkpoint", plan) == PreflightItem("checkpoint", False, "/no/model.gguf does not exist")


def test_flags_that_this_build_does_not_know(llama_plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked("flags", llama_plan).ok is None
    known = frozenset(word for word in launch_of(llama_plan, build=EMBEDDED).argv if word.startswith("-"))
    monkeypatch.setattr("ropewalk.serving.preflight.known_flags", lambda build: known)
    assert checked("flags", llama_plan).ok is True
    monkeypatch.setattr(
        "ropewalk.serving.preflight.known_flags", lambda build: known - {"-fit", "--cache-ram"}
    )
    item = checked("flags", llama_plan)
    assert (item.ok, item.message) == (False, "embedded 2026.10.11549 does not know --cache-ram, -fit")


def test_a_scaling_in_the_words_of_another_version(vllm_plan: Plan) -> None:
    assert checked("rope", vllm_plan, build=VLLM).message == "positions as trained"
    scaled = replace(vllm_plan, rope=replace(vllm_plan.rope, decision="scale", type="yarn", factor=4.0))
    item = checked("rope", scaled, build=VLLM)
    assert (item.ok, item.message) == (True, "YaRN 4, as flags of vllm 0.32.0")
    older = replace(scaled, request=replace(scaled.request, engine_version="0.29.0"))
    item = checked("rope", older, build=VLLM)
    assert item.ok is False
    assert item.message.startswith("planned for vllm 0.29.0, this is 0.32.0: YaRN no longer multiplies")
    assert checked("rope", scaled, build=replace(VLLM, version=None)).ok is None


def with_shares(plan: Plan, *shares: DeviceShare) -> Plan:
    return replace(plan, memory=replace(plan.memory, per_device=shares))


def test_memory_is_judged_on_the_upper_end_of_the_device_that_lacks_most(llama_plan: Plan) -> None:
    fits = with_shares(llama_plan, share("cpu", 7 * GIB, high=8 * GIB), share("gpu:1", 20 * GIB))
    assert checked("memory", fits).ok is True
    tight = with_shares(llama_plan, share("cpu", 1 * GIB), share("gpu:1", 19 * GIB, high=21 * GIB))
    item = checked("memory", tight)
    assert (item.ok, item.message) == (False, "up to 21.00 GiB on cuda:1, 20.00 GiB are free now")


def test_ranks_on_the_processor_share_its_memory(llama_plan: Plan) -> None:
    item = checked("memory", with_shares(llama_plan, share("cpu:0", 3 * GIB), share("cpu:1", 6 * GIB)))
    assert item.ok is False
    assert item.message.startswith("up to 9.00 GiB on cpu, 8.00 GiB are free now")


def test_who_holds_the_memory_is_named(llama_plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ropewalk.serving.preflight.largest_process", lambda: LargeProcess(42, "EngineCore", 6 * GIB)
    )
    item = checked("memory", with_shares(llama_plan, share("cpu", 9 * GIB)))
    assert item.ok is False
    assert item.message.endswith("; process 42 (EngineCore) holds 6.00 GiB")


def test_a_config_alone_is_not_served(vllm_plan: Plan) -> None:
    inspection = inspection_of()
    config = replace(inspection, checkpoint=replace(inspection.checkpoint, format="config"))
    item = checked("checkpoint", vllm_plan, build=VLLM, inspection=config)
    assert item.ok is False
    assert item.message.endswith("Qwen3-8B has a config and no weights")


def test_memory_of_a_device_that_cannot_be_asked(llama_plan: Plan) -> None:
    assert checked("memory", with_shares(llama_plan, share("gpu:7", GIB))).ok is None


@pytest.mark.parametrize(
    ("tensor_parallel", "heads", "ok", "message"),
    [
        (1, 9, True, "one device"),
        (2, 9, False, "9 attention heads cannot be divided by 2"),
        (2, 8, True, "2 ranks, 2 GPUs"),
        (4, 8, False, "4 ranks, 2 GPUs"),
    ],
)
def test_ranks(
    make_plan: MakePlan, folder: Path, tensor_parallel: int, heads: int, ok: bool, message: str
) -> None:
    request = PlanRequest(context_len=512, engine="vllm", tensor_parallel=tensor_parallel)
    plan = make_plan(request, checkpoint=str(folder))
    item = checked("devices", plan, build=VLLM, inspection=inspection_of(heads=heads))
    assert (item.ok, item.message) == (ok, message)


def test_gpus_that_the_build_cannot_use(llama_plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked("devices", llama_plan).message == "the plan is for the CPU"
    plan = with_shares(llama_plan, share("gpu:0", 1), share("gpu:1", 1), share("cpu", 1))
    monkeypatch.setattr("ropewalk.serving.engines.llama_cpp.launch.with_devices", lambda build: build)
    item = checked("devices", plan)
    assert (item.ok, item.message) == (False, "2 GPUs planned; embedded can use none")
    monkeypatch.setattr(
        "ropewalk.serving.engines.llama_cpp.launch.with_devices",
        lambda build: replace(build, devices=("CUDA0", "CUDA1")),
    )
    assert checked("devices", plan).ok is True


def test_the_port(llama_plan: Plan) -> None:
    assert checked("port", llama_plan).message == "a free port will be taken"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert checked("port", llama_plan, port=port).ok is False
    assert checked("port", llama_plan, port=port).message == f"port {port} on 127.0.0.1 is free"
