"""Shell scripts: they start just what was planned, whatever the words hold."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.emit.plans import Started, of_checkpoint, programs, run, shellcheck

from ropewalk.emit import emit
from ropewalk.findings import Finding
from ropewalk.planner.records import Plan
from ropewalk.serving.engines.llama_cpp.client import LlamaClient
from ropewalk.serving.engines.vllm.nodes import node_flags
from ropewalk.serving.process.ports import free_port


def launch_argv(plan: Plan) -> tuple[str, ...]:
    assert plan.launch is not None
    return plan.launch.argv


def test_one_machine_is_one_command(single: Plan, tmp_path: Path) -> None:
    script = emit(single, "shell")
    assert run("sh", script, path=programs(tmp_path)) == [Started(launch_argv(single), None, None)]
    assert "\n  --max-model-len 131072 \\\n" in script
    assert '"rope_type":"yarn"' in script


def test_what_the_file_was_made_from_stands_at_its_top(single: Plan) -> None:
    lines = emit(single, "shell").splitlines()
    assert lines[0] == "#!/bin/sh"
    assert lines[1].endswith("Qwen3-8B: 131,072 tokens x 1, planned by ropewalk")
    assert lines[2:5] == [
        "# for     vllm 0.33.0, 1 machine, 1 GPU",
        "# rope    yarn, factor 4.0: 131,072 / 32,768, the publisher's rule",
        "# memory  34.04 GiB planned, up to 34.58 GiB",
    ]
    assert lines[5].startswith("# ! short_text_degradation: ")


def test_the_same_plan_gives_the_same_bytes(group: Plan) -> None:
    for kind in ("shell", "k8s", "slurm", "skypilot"):
        assert emit(group, kind) == emit(group, kind)


def test_the_environment_of_the_launch_is_set(single: Plan, tmp_path: Path) -> None:
    assert single.launch is not None
    threads = "4; touch broken $(touch broken)"
    plan = replace(single, launch=replace(single.launch, env={"OMP_NUM_THREADS": threads}))
    (started,) = run("sh", emit(plan, "shell"), path=programs(tmp_path))
    assert started == Started(launch_argv(single), None, threads)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_each_machine_of_a_group_starts_its_own_part(group: Plan, tmp_path: Path, shell: str) -> None:
    script, path = emit(group, "shell"), programs(tmp_path)
    common = launch_argv(group)[: -len(node_flags(num_nodes=2, node=0, head="NODE0"))]
    first, other = (node_flags(num_nodes=2, node=node, head="10.0.0.1") for node in (0, 1))
    assert run(shell, script, "0", "10.0.0.1", path=path) == [Started((*common, *first), None, None)]
    started = run(shell, script, "1", "10.0.0.1", "10.0.0.2", path=path)
    assert started == [Started((*common, *other), "10.0.0.2", None)]
    assert other[-1] == "--headless"
    assert "# node 0: blocks 0 to 17, embedding, up to" in script
    assert "# node 1: blocks 18 to 35, up to" in script


@pytest.mark.parametrize(
    "arguments", [(), ("0",), ("2", "10.0.0.1"), ("x", "10.0.0.1"), ("0", "a", "b", "c")]
)
def test_a_group_s_script_without_its_place_starts_nothing(
    group: Plan, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    words = ["sh", "-c", emit(group, "shell"), "serve.sh", *arguments]
    environment = {"PATH": f"{programs(tmp_path)}:{os.defpath}"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(("usage: sh serve.sh NODE", "serve.sh: the nodes are 0 to 1"))


def test_a_name_cannot_leave_the_comment_or_its_quotes(single: Plan, tmp_path: Path) -> None:
    name = "models/x\ntouch broken\n'$(touch broken)'\r\u2028#"
    finding = Finding("context_over_trained", "warning", "says\ntouch broken")
    plan = replace(of_checkpoint(single, name), findings=(finding,))
    script = f"cd {shlex.quote(str(tmp_path))}\n{emit(plan, 'shell')}"
    (started,) = run("sh", script, path=programs(tmp_path / "bin"))
    assert started.argv[1] == name
    assert not (tmp_path / "broken").exists()


@pytest.mark.parametrize("fixture", ["single", "group", "gguf"])
@pytest.mark.extra
def test_shellcheck_has_nothing_to_say(fixture: str, request: pytest.FixtureRequest) -> None:
    assert shellcheck(emit(request.getfixturevalue(fixture), "shell")) == ""


@pytest.mark.extra
def test_shellcheck_would_say_something(group: Plan) -> None:
    script = emit(group, "shell").replace('--master-addr "$head"', "--master-addr $head")
    assert "SC2086" in shellcheck(script)


@pytest.mark.engine
@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the embedded engine is not installed")
def test_the_script_of_a_gguf_serves(gguf: Plan, tmp_path: Path) -> None:
    """With the embedded engine under the name that the script calls."""
    python = shlex.quote(sys.executable)
    path = programs(
        tmp_path / "bin",
        **{"llama-server": f'exec {python} -P -m ropewalk.serving.engines.llama_cpp.embedded "$@" -t 1'},
    )
    port = free_port()
    script = emit(gguf, "shell").replace("--port 8080", f"--port {port}")
    server = subprocess.Popen(
        ["sh", "-c", script],
        env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        with LlamaClient(f"http://127.0.0.1:{port}", model=Path(gguf.checkpoint)) as client:
            for _ in range(600):
                if client.healthy() or server.poll() is not None:
                    break
                time.sleep(0.1)
            assert client.context_len() == 8192
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
