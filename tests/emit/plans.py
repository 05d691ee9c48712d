"""Plans to emit: Qwen3-8B with vLLM on one machine or several, SmolLM2 with llama-server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ropewalk.engines import EngineBuild
from ropewalk.inspector.records import Inspection
from ropewalk.planner.machine import Machine
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan, PlanRequest, RankPlace
from ropewalk.serving.engines import launch_of, with_launch
from ropewalk.serving.engines.vllm.nodes import with_nodes
from ropewalk.units import GIB

VLLM = EngineBuild("vllm", "vllm", "0.33.0", "vllm")
LLAMA = EngineBuild("llama-server", "llama-server", "b11434", "llama-server")


def on_gpus(inspection: Inspection, **request: Any) -> Plan:
    """131,072 tokens on GPUs of 48 GiB, with the command of vLLM 0.33.0."""
    fields = {"memory_bytes": 48 * GIB, "device": "cuda", **request}
    plan = make_plan(inspection, PlanRequest(131_072, "vllm", **fields), machine=Machine(kind="gpu"))
    return with_launch(plan, build=VLLM)


def distribute(plan: Plan, num_nodes: int) -> Plan:
    """The plan's ranks laid on machines, as many on each."""
    spec = with_nodes(launch_of(plan, build=VLLM), [f"NODE{node}" for node in range(num_nodes)])
    assert plan.launch is not None
    shares = plan.memory.per_device
    placed = tuple(
        replace(share, place=RankPlace(node=rank * num_nodes // len(shares), embedding=rank == 0))
        for rank, share in enumerate(shares)
    )
    launch = replace(plan.launch, argv=spec.argv, env=spec.env, nodes=spec.nodes)
    return replace(plan, launch=launch, memory=replace(plan.memory, per_device=placed))


def on_processor(inspection: Inspection, **request: Any) -> Plan:
    """8,192 tokens on the processor, with the command of llama-server b11434."""
    fields = {"device": "cpu", **request}
    plan = make_plan(inspection, PlanRequest(8192, "llama-server", **fields), machine=Machine(kind="cpu"))
    return with_launch(plan, build=LLAMA)


def of_checkpoint(plan: Plan, checkpoint: str) -> Plan:
    """The plan as if it had been made for a checkpoint of this name."""
    build = VLLM if plan.request.engine == "vllm" else LLAMA
    return with_launch(replace(plan, checkpoint=checkpoint), build=build)


@dataclass(frozen=True, slots=True)
class Started:
    """What a script started: the arguments and the variables that matter."""

    argv: tuple[str, ...]
    host_ip: str | None
    threads: str | None


_FAKE = """#!{python} -I
import json, os, sys
print(json.dumps([sys.argv[1:], os.environ.get("VLLM_HOST_IP"), os.environ.get("OMP_NUM_THREADS")]))
"""


def programs(folder: Path, **scripts: str) -> Path:
    """A folder for the path: a ``vllm`` that says what it was given, and these bash scripts."""
    folder.mkdir(exist_ok=True)
    texts = {"vllm": _FAKE.format(python=sys.executable)}
    texts |= {name: f"#!/bin/bash\n{text}\n" for name, text in scripts.items()}
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def run(shell: str, script: str, *arguments: str, path: Path, **variables: str) -> list[Started]:
    """Run a script with these programs first on the path, and say what it started."""
    environment = {"PATH": f"{path}:{os.defpath}", **variables}
    done = _run([shell, "-c", script, "script.sh", *arguments], environment)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return [Started(tuple(argv), host_ip, threads) for argv, host_ip, threads in told]


def _run(words: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=30)


def shellcheck(script: str) -> str:
    """What shellcheck has to say; skips where it is not installed."""
    import pytest

    program = Path(sys.executable).with_name("shellcheck")
    if not program.exists():
        pytest.skip("the dependency group `manifests` is not installed")
    done = subprocess.run([program, "-"], input=script, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
