"""Slurm scripts, run with stand-ins for ``scontrol`` and ``srun``."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.emit.plans import Started, programs, run, shellcheck

from ropewalk.emit import emit
from ropewalk.errors import UsageError
from ropewalk.planner.records import Plan
from ropewalk.serving.engines.vllm.nodes import node_flags

# Drops srun's own options and runs the task once a node, in a fresh environment as on another machine.
_SRUN = """
options=()
while [ "${1#-}" != "$1" ]; do options+=("$1"); shift; done
[ "${options[*]}" = "--kill-on-bad-exit=1 --wait=30" ] || exit 9
for id in 0 1; do SLURM_NODEID=$id "$@"; done
"""


def reachable(plan: Plan) -> tuple[str, ...]:
    """The planned arguments on every address."""
    assert plan.launch is not None
    argv = list(plan.launch.argv)
    argv[argv.index("--host") + 1] = "0.0.0.0"
    return tuple(argv)


def directives(script: str) -> list[str]:
    return re.findall(r"^#SBATCH --(.+)$", script, flags=re.MULTILINE)


def test_a_group_is_started_once_a_machine(group: Plan, tmp_path: Path) -> None:
    path = programs(
        tmp_path, srun=_SRUN, scontrol='[ "$*" = "show hostnames n[1-2]" ] && printf "n1\\nn2\\n"'
    )
    common = reachable(group)[: -len(node_flags(num_nodes=2, node=0, head="NODE0"))]
    started = run("bash", emit(group, "slurm"), path=path, SLURM_JOB_NODELIST="n[1-2]")
    assert started == [
        Started((*common, *node_flags(num_nodes=2, node=node, head="n1")), None, None) for node in (0, 1)
    ]


def test_one_machine_needs_no_step(single: Plan, tmp_path: Path) -> None:
    started = run("bash", emit(single, "slurm"), path=programs(tmp_path))
    assert started == [Started(reachable(single), None, None)]


def test_what_is_asked_of_slurm(single: Plan, group: Plan, gguf: Plan) -> None:
    whole = ["exclusive", "mem=0"]
    assert directives(emit(single, "slurm")) == [
        "job-name=qwen3-8b", "nodes=1", "ntasks-per-node=1", "gpus-per-node=1", *whole,
    ]  # fmt: skip
    assert directives(emit(group, "slurm"))[1:4] == ["nodes=2", "ntasks-per-node=1", "gpus-per-node=2"]
    assert directives(emit(gguf, "slurm"))[1:] == ["nodes=1", "ntasks-per-node=1", *whole]


def test_directives_come_before_the_first_command(group: Plan) -> None:
    """Slurm reads none behind it."""
    lines = emit(group, "slurm").splitlines()
    first = next(place for place, line in enumerate(lines) if line and not line.startswith("#"))
    assert lines[first] == "set -eu"
    assert not [line for line in lines[first:] if line.startswith("#SBATCH")]


@pytest.mark.parametrize("fixture", ["single", "group", "gguf"])
def test_shellcheck_has_nothing_to_say(fixture: str, request: pytest.FixtureRequest) -> None:
    assert shellcheck(emit(request.getfixturevalue(fixture), "slurm")) == ""


@pytest.mark.parametrize("kind", ["slurm", "k8s", "skypilot"])
def test_rpc_servers_are_for_a_network_that_one_trusts(gguf: Plan, kind: str) -> None:
    plan = replace(gguf, request=replace(gguf.request, rpc_servers=("10.0.0.2:50052",)))
    with pytest.raises(UsageError, match="no safe place for"):
        emit(plan, kind)  # type: ignore[arg-type]
    assert "ggml-rpc-server on 10.0.0.2:50052" in emit(plan, "shell")
