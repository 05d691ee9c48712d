"""What is emitted for no plan, and what a server is called, has and needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import click
import pytest
import yaml
from tests.emit.plans import of_checkpoint, on_gpus, on_processor

from ropewalk import core
from ropewalk.cli.plan import command
from ropewalk.emit import KINDS, EmitKind, emit
from ropewalk.emit.server import server_of
from ropewalk.emit.yamltext import yaml_text
from ropewalk.errors import UsageError
from ropewalk.inspector.readers.hubsource import HubId
from ropewalk.inspector.records import Inspection
from ropewalk.planner.records import Plan
from ropewalk.units import GIB, MIB


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_emitted_for_a_negative_verdict(qwen3: Inspection, single: Plan, kind: EmitKind) -> None:
    with pytest.raises(UsageError) as refused:
        emit(on_gpus(qwen3, memory_bytes=16 * GIB), kind)
    assert refused.value.code == "does_not_fit"
    plan = replace(single, rope=replace(single.rope, decision="refuse", reason="too long"))
    with pytest.raises(UsageError, match="too long") as refused:
        emit(plan, kind)
    assert refused.value.code == "plan_refused"
    with pytest.raises(UsageError, match="a plan for vllm has no command"):
        emit(replace(single, launch=None), kind)


def test_no_image_is_known_of_llama_cpp_python(single: Plan) -> None:
    assert single.launch is not None
    plan = replace(single, launch=replace(single.launch, engine="llama-cpp-python"))
    with pytest.raises(UsageError, match="written for vllm and llama-server, not for llama-cpp-python"):
        emit(plan, "shell")


@pytest.mark.parametrize(
    ("version", "image"),
    [
        ("0.32.0+cpu", "vllm/vllm-openai:v0.32.0"),
        ("0.33", "vllm/vllm-openai:v0.33.0"),
        (None, None),
        ("0.33.1.dev5+g1234567", None),
        ("0.34.0rc1", None),
        ("main", None),
    ],
)
def test_images_are_pinned_to_a_release(single: Plan, version: str | None, image: str | None) -> None:
    assert single.launch is not None
    plan = replace(single, launch=replace(single.launch, engine_version=version))
    assert "exec vllm serve" in emit(plan, "shell")
    if image is not None:
        assert f"image: {image}\n" in emit(plan, "k8s")
        return
    for kind in ("k8s", "skypilot", "docker", "compose"):
        with pytest.raises(UsageError, match=r"--engine-version \(such as 0\.33\.0") as refused:
            emit(plan, kind)
        assert refused.value.where["flag"] == "--engine-version"


def test_the_build_inside_the_embedded_engine_is_the_image_s(gguf: Plan) -> None:
    assert gguf.launch is not None
    plan = replace(gguf, launch=replace(gguf.launch, engine_version="2026.10.11549"))
    assert "image: ghcr.io/ggml-org/llama.cpp:server-b11549\n" in emit(plan, "k8s")


@pytest.mark.parametrize(
    ("checkpoint", "name"),
    [
        ("/models/Qwen3-8B", "qwen3-8b"),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct-q4-1"),
        ("01-ai/", "model-01-ai"),
        (".", "model"),
        ("模型", "model"),
        ("a" * 100, "a" * 40),
        ("a" * 39 + "-b", "a" * 39),
    ],
)
def test_names_are_those_of_a_service(single: Plan, checkpoint: str, name: str) -> None:
    assert server_of(of_checkpoint(single, checkpoint), hub=None).name == name


def test_what_a_machine_has(single: Plan, group: Plan, gguf: Plan) -> None:
    servers = [server_of(plan, hub=None) for plan in (single, group, gguf)]
    assert [(server.num_nodes, server.gpus) for server in servers] == [(1, 1), (2, 2), (1, 0)]
    assert [server.host_bytes for server in servers[:2]] == [0, 0]
    assert servers[2].host_bytes == gguf.memory.high_bytes > 300 * MIB


def test_machines_that_a_plan_asks_for(qwen3: Inspection, tmp_path: Path) -> None:
    plan = core.plan(
        qwen3,
        context_len=131_072,
        engine="vllm",
        engine_version="0.33.0",
        device="cuda",
        memory_bytes=48 * GIB,
        nodes=2,
        gpus_per_node=2,
        tensor_parallel=2,
        pipeline_parallel=2,
        store=tmp_path,
    )
    server = server_of(plan, hub=None)
    assert (server.num_nodes, server.gpus, server.host_bytes) == (2, 2, 0)
    assert "--nnodes" not in server.argv
    assert server.env == {}


def test_a_gguf_of_the_hub_is_downloaded_first(gguf: Plan) -> None:
    with pytest.raises(UsageError, match="download org/name and plan for that"):
        emit(gguf, "k8s", hub=HubId("org/name", "main", "Q4_K_M"))


def test_a_checkpoint_of_this_machine_is_none_of_the_hub(single: Plan) -> None:
    assert "/models/Qwen3-8B" in core.emit(single, "k8s")
    text = core.emit(of_checkpoint(single, "Qwen/Qwen3-8B"), "k8s")
    assert "- Qwen/Qwen3-8B\n" in text
    assert "HF_HOME" in text


def test_kinds_are_listed_once() -> None:
    assert get_args(EmitKind) == KINDS
    assert KINDS == ("shell", "k8s", "slurm", "skypilot", "docker", "compose", "systemd")
    (option,) = [one for one in command.params if one.name == "kind"]
    assert isinstance(option.type, click.Choice)
    assert tuple(option.type.choices) == KINDS


def test_yaml_keeps_order_and_names_nothing() -> None:
    shared = {"b": 1, "a": "on"}
    text = yaml_text({"x": shared, "y": shared, "z": "1\n2\n"})
    assert text == "x:\n  b: 1\n  a: 'on'\ny:\n  b: 1\n  a: 'on'\nz: |\n  1\n  2\n"
    assert yaml.safe_load(text) == {"x": shared, "y": shared, "z": "1\n2\n"}


def test_gpus_of_llama_server_and_what_it_keeps_beside_them(gguf: Plan, smollm2: object) -> None:
    plan = on_processor(core.inspect(str(smollm2)), device="cuda")
    server = server_of(plan, hub=None)
    assert (server.gpus, server.host_bytes > 0) == (1, True)
    assert server.host_bytes < plan.memory.high_bytes
    assert "image: ghcr.io/ggml-org/llama.cpp:server-cuda-b11434\n" in emit(plan, "k8s")
