"""``docker run`` and Compose: what reaches the engine is the plan's, whatever the words hold."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.emit.plans import of_checkpoint, on_processor, shellcheck

from ropewalk import core
from ropewalk.emit import EmitKind, emit
from ropewalk.errors import UsageError
from ropewalk.inspector.readers.hubsource import HubId
from ropewalk.planner.records import Plan

ODD = '/srv/my, "models"/it\'s $HOME $(touch broken) 100%'
HUB = HubId("Qwen/Qwen3-8B", "main", None)
CONTAINERS: tuple[EmitKind, ...] = ("docker", "compose")


def inside(plan: Plan, name: str) -> list[str]:
    """The planned arguments with the model where the container has it."""
    assert plan.launch is not None
    argv = list(plan.launch.argv)
    argv[1] = f"/models/{name}"
    argv[argv.index("--host") + 1] = "0.0.0.0"
    return argv


def started(script: str, folder: Path) -> list[str]:
    """What the script gives to ``docker``."""
    program = folder / "docker"
    program.write_text(f"#!{sys.executable} -I\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    program.chmod(0o755)
    words, path = ["sh", "-c", script], f"{folder}:{os.defpath}"
    done = subprocess.run(words, env={"PATH": path}, cwd=folder, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def service_of(text: str) -> dict[str, Any]:
    """The one service after what Compose replaces."""
    (service,) = yaml.safe_load(text)["services"].values()

    def expanded(data: Any) -> Any:
        if isinstance(data, dict):
            return {name: expanded(value) for name, value in data.items()}
        if isinstance(data, list):
            return [expanded(value) for value in data]
        if isinstance(data, str):
            assert re.fullmatch(r"([^$]|\$\$)*", data)
            return data.replace("$$", "$")
        return data

    return dict(expanded(service))


def test_docker_runs_the_planned_command(single: Plan, tmp_path: Path) -> None:
    words = started(emit(of_checkpoint(single, "/srv/Qwen3-8B"), "docker"), tmp_path)
    options = words[: words.index("vllm/vllm-openai:v0.33.0")]
    assert " ".join(options) == (
        "run --rm --name qwen3-8b --gpus 1 --ipc=host --security-opt no-new-privileges "
        "--publish 127.0.0.1:8000:8000 --mount "
        "type=bind,source=/srv/Qwen3-8B,target=/models/Qwen3-8B,readonly "
        "--env VLLM_API_KEY --entrypoint vllm"
    )
    assert words[len(options) + 1 :] == inside(of_checkpoint(single, "/srv/Qwen3-8B"), "Qwen3-8B")


def test_compose_is_the_same(single: Plan) -> None:
    plan = of_checkpoint(single, "/srv/Qwen3-8B")
    text = emit(plan, "compose")
    assert yaml.safe_load(text)["name"] == "qwen3-8b"
    service = service_of(text)
    assert service.pop("command") == inside(plan, "Qwen3-8B")
    url = "http://127.0.0.1:8000/health"
    request = f"import urllib.request; urllib.request.urlopen('{url}', timeout=5)"
    assert service.pop("healthcheck") == {
        "test": ["CMD", "python3", "-c", request],
        "interval": "10s",
        "timeout": "10s",
        "retries": 3,
        "start_period": "1800s",
    }
    device = {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}
    assert service == {
        "image": "vllm/vllm-openai:v0.33.0",
        "entrypoint": ["vllm"],
        "environment": {"VLLM_API_KEY": None},
        "ports": ["127.0.0.1:8000:8000"],
        "volumes": [
            {
                "type": "bind",
                "source": "/srv/Qwen3-8B",
                "target": "/models/Qwen3-8B",
                "read_only": True,
                "bind": {"create_host_path": False},
            }
        ],
        "ipc": "host",
        "security_opt": ["no-new-privileges:true"],
        "restart": "unless-stopped",
        "deploy": {"resources": {"reservations": {"devices": [device]}}},
    }


def test_a_hub_id_has_the_cache_and_a_token_by_name(single: Plan, tmp_path: Path) -> None:
    plan = of_checkpoint(single, "Qwen/Qwen3-8B")
    words = started(emit(plan, "docker", hub=HUB), tmp_path)
    assert "type=volume,source=huggingface,target=/cache/huggingface" in words
    at = words.index("HF_TOKEN")
    assert words[at - 5 : at] == ["--env", "HF_HOME=/cache/huggingface", "--env", "VLLM_API_KEY", "--env"]
    assert words[words.index("serve") + 1] == "Qwen/Qwen3-8B"
    text = emit(plan, "compose", hub=HUB)
    assert yaml.safe_load(text)["volumes"] == {"huggingface": {}}
    assert service_of(text)["environment"] == {
        "HF_HOME": "/cache/huggingface",
        "VLLM_API_KEY": None,
        "HF_TOKEN": None,
    }


def test_llama_server_on_the_processor(gguf: Plan, tmp_path: Path) -> None:
    plan = of_checkpoint(gguf, "models/x-00001-of-00002.gguf")
    words = started(emit(plan, "docker"), tmp_path)
    assert "type=bind,source=./models,target=/models,readonly" in words
    assert words[words.index("-m") + 1] == "/models/x-00001-of-00002.gguf"
    assert not {"--gpus", "--ipc=host"} & set(words)
    service = service_of(emit(plan, "compose"))
    assert service["healthcheck"]["test"][:2] == ["CMD", "curl"]
    assert service["entrypoint"] == ["/app/llama-server"]
    assert not {"deploy", "ipc"} & set(service)


def test_hostile_words_stay_words(single: Plan, tmp_path: Path) -> None:
    plan = of_checkpoint(single, ODD)
    assert plan.launch is not None
    plan = replace(plan, launch=replace(plan.launch, env={"X": "$Y ${Z} $$ '\""}))
    name = ODD.rpartition("/")[2]
    words = started(emit(plan, "docker"), tmp_path)
    (fields,) = csv.reader([words[words.index("--mount") + 1]])
    assert fields == ["type=bind", f"source={ODD}", f"target=/models/{name}", "readonly"]
    assert "X=$Y ${Z} $$ '\"" in words
    assert words[words.index("serve") :] == inside(plan, name)
    assert not (tmp_path / "broken").exists()
    service = service_of(emit(plan, "compose"))
    assert service["volumes"][0]["source"] == ODD
    assert service["environment"]["X"] == "$Y ${Z} $$ '\""
    assert service["command"] == inside(plan, name)


@pytest.mark.parametrize("kind", [*CONTAINERS, "systemd"])
def test_what_cannot_be_held_is_refused(
    single: Plan, group: Plan, gguf: Plan, smollm2: Path, kind: EmitKind
) -> None:
    with pytest.raises(UsageError, match=rf"{kind} starts one machine, the plan is for 2: choose k8s"):
        emit(group, kind)
    with pytest.raises(UsageError, match=rf"{kind} has no way to write .* '/srv/a\\nb'"):
        emit(of_checkpoint(single, "/srv/a\nb"), kind)
    plan = on_processor(core.inspect(smollm2), rpc_servers=("10.0.0.2:50052",), device="cpu")
    with pytest.raises(UsageError, match="RPC servers"):
        emit(replace(gguf, request=plan.request), kind)


@pytest.mark.extra
def test_shellcheck_finds_nothing(single: Plan) -> None:
    assert shellcheck(emit(of_checkpoint(single, ODD), "docker")) == ""


@pytest.mark.extra
@pytest.mark.parametrize("checkpoint", ["/srv/Qwen3-8B", ODD])
def test_compose_takes_it(single: Plan, checkpoint: str) -> None:
    text = emit(of_checkpoint(single, checkpoint), "compose")
    try:
        subprocess.run(["docker", "compose", "version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("docker compose is not installed")
    words = ["docker", "compose", "-f", "-", "config", "--quiet"]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
