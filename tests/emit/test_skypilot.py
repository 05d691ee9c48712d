"""SkyPilot tasks: what they ask for and run; SkyPilot's own reading of them is `make manifests`' part."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.emit.plans import Started, of_checkpoint, on_gpus, programs, run, shellcheck

from ropewalk.emit import emit
from ropewalk.errors import UsageError
from ropewalk.inspector.readers.hubsource import HubId
from ropewalk.inspector.records import Inspection
from ropewalk.planner.records import Plan
from ropewalk.serving.engines.vllm.nodes import node_flags

Data = dict[str, Any]


def task(plan: Plan, **options: Any) -> Data:
    data: Data = yaml.safe_load(emit(plan, "skypilot", **options))
    return data


def on_the_machine(plan: Plan) -> tuple[str, ...]:
    """The planned arguments on every address, with the model where the task puts it."""
    assert plan.launch is not None
    argv = [
        word.replace(plan.checkpoint, f"/models/{Path(plan.checkpoint).name}") for word in plan.launch.argv
    ]
    argv[argv.index("--host") + 1] = "0.0.0.0"
    return tuple(argv)


def test_one_machine_is_a_service(single: Plan) -> None:
    data = task(single, accelerator="H100")
    assert data["resources"] == {"accelerators": "H100:1", "ports": 8000}
    assert data["service"] == {
        "readiness_probe": {"path": "/health", "initial_delay_seconds": 1800},
        "replicas": 1,
    }
    assert data["file_mounts"] == {"/models/Qwen3-8B": single.checkpoint}
    assert "vllm==0.33.0\n" in data["setup"]
    assert data["secrets"] == {"VLLM_API_KEY": None}


def test_several_machines_are_no_service(group: Plan) -> None:
    data = task(group)
    assert data["num_nodes"] == 2
    assert "service" not in data
    assert data["resources"]["accelerators"] == "48GB+:2"


def test_gpus_are_named_or_of_a_known_size(qwen3: Inspection) -> None:
    plan = on_gpus(qwen3, memory_bytes=None)
    with pytest.raises(UsageError, match="--accelerator H100"):
        emit(plan, "skypilot")
    assert task(plan, accelerator="A100-80GB")["resources"]["accelerators"] == "A100-80GB:1"
    with pytest.raises(UsageError, match="k8s takes none"):
        emit(plan, "k8s", accelerator="H100")


def test_llama_server_runs_in_its_image(gguf: Plan) -> None:
    data = task(gguf)
    assert data["resources"] == {
        "memory": "1+",
        "image_id": "docker:ghcr.io/ggml-org/llama.cpp:server-b11434",
        "ports": 8080,
    }
    assert "setup" not in data
    assert "exec /app/llama-server \\\n" in data["run"]
    assert data["secrets"] == {"LLAMA_API_KEY": None}


def test_a_hub_id_sends_no_file(single: Plan) -> None:
    hub = HubId("Qwen/Qwen3-8B", "main", None)
    plan = of_checkpoint(single, hub.repo)
    assert "file_mounts" not in task(plan, hub=hub)
    assert "exec vllm serve Qwen/Qwen3-8B \\\n" in task(plan, hub=hub)["run"]
    assert "# For a gated model --secret HF_TOKEN as well.\n" in emit(plan, "skypilot", hub=hub)


def test_all_parts_of_a_split_file_are_sent(gguf: Plan) -> None:
    part = "models/qwen-00001-of-00003.gguf"
    data = task(of_checkpoint(gguf, part))
    assert data["file_mounts"] == {"/models": "models"}
    assert "-m /models/qwen-00001-of-00003.gguf" in data["run"]


def environment(home: Path) -> dict[str, str]:
    """A home with the environment that ``setup`` makes."""
    activate = home / "engine" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.touch()
    return {"HOME": str(home)}


def test_it_runs_what_was_planned(single: Plan, tmp_path: Path) -> None:
    started = run("bash", task(single)["run"], path=programs(tmp_path / "bin"), **environment(tmp_path))
    assert started == [Started(on_the_machine(single), None, None)]


@pytest.mark.parametrize("rank", [0, 1])
def test_each_machine_knows_its_place(group: Plan, tmp_path: Path, rank: int) -> None:
    common = on_the_machine(group)[: -len(node_flags(num_nodes=2, node=0, head="NODE0"))]
    given = {"SKYPILOT_NODE_RANK": str(rank), "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2"}
    (started,) = run(
        "bash", task(group)["run"], path=programs(tmp_path / "bin"), **environment(tmp_path), **given
    )
    flags = node_flags(num_nodes=2, node=rank, head="10.0.0.1")
    assert started == Started((*common, *flags), f"10.0.0.{rank + 1}", None)


@pytest.mark.parametrize("fixture", ["single", "group", "gguf"])
@pytest.mark.extra
def test_shellcheck_has_nothing_to_say(fixture: str, request: pytest.FixtureRequest) -> None:
    data = task(request.getfixturevalue(fixture))
    for part in (data["run"], data.get("setup", "")):
        # Neither has a first line that names a shell, and the environment is made by ``setup``.
        assert shellcheck(f"#!/bin/bash\n# shellcheck disable=SC1091\n{part}") == ""


@pytest.mark.slow
def test_skypilot_itself_reads_them(single: Plan, group: Plan, gguf: Plan) -> None:
    """Offline: a GPU by its memory would be looked up in a catalogue, so these are named."""
    python = os.environ.get("ROPEWALK_SKYPILOT")
    if python is None:
        pytest.skip("ROPEWALK_SKYPILOT names no interpreter with SkyPilot: make manifests")
    good = [task(single, accelerator="H100"), task(group, accelerator="H100"), task(gguf)]
    bad = [
        good[1] | {"num_nodess": 2},
        good[0] | {"service": {"readiness_probee": "/health"}},
        good[2] | {"resources": {"port": 8080}},
    ]
    code = (
        "import json, sys, sky\n"
        "for task in json.load(sys.stdin):\n"
        "    try:\n"
        "        sky.Task.from_yaml_config(task)\n"
        "        print('valid')\n"
        "    except Exception as error:\n"
        "        print(str(error).replace('\\n', ' '))\n"
    )
    words = [python, "-c", code]
    done = subprocess.run(words, input=json.dumps(good + bad), capture_output=True, text=True, check=True)
    *valid, nodes, probe, port = done.stdout.splitlines()
    assert valid == ["valid"] * 3
    assert "did you mean 'num_nodes'" in nodes
    assert "did you mean 'readiness_probe'" in probe
    assert "'port'" in port
