"""Who starts which node, and by which words."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ropewalk.engines import EngineBuild
from ropewalk.errors import UsageError
from ropewalk.planner.records import Launch, NodeLaunch
from ropewalk.serving.engines.vllm.nodes import with_nodes
from ropewalk.serving.process.members import by_hand, is_here, launched, members_of, nodes_here

BUILD = EngineBuild(name="vllm", engine="vllm", version="0.32.0", path="/opt/vllm")
SPEC = Launch("vllm", "0.32.0", ("serve", "m", "--port", "8000"), {}, "vllm serve m", "rules", build=BUILD)
NODE = NodeLaunch(
    node=1,
    address="10.0.0.2",
    program="vllm",
    argv=("serve", "my model", "--hf-overrides", '{"a":1}'),
    env={"VLLM_HOST_IP": "10.0.0.2"},
    command="",
)
COMMAND = ("env", "VLLM_HOST_IP=10.0.0.2", "vllm", *NODE.argv)


def test_a_launcher_gets_the_command_as_one_word() -> None:
    *words, command = launched("ssh -p 22 {address}", NODE)
    assert words == ["ssh", "-p", "22", "10.0.0.2"]
    shell, flag, snippet = shlex.split(command)
    assert (shell, flag) == ("sh", "-c")
    assert shlex.join(COMMAND) in snippet


def test_a_launcher_that_starts_programs_gets_the_words() -> None:
    template = "srun --nodelist {address} --job-name 'rank {node}' {argv}"
    assert launched(template, NODE) == (
        *("srun", "--nodelist", "10.0.0.2", "--job-name", "rank 1"),
        *COMMAND,
    )


def test_nothing_of_a_template_is_read_by_a_shell() -> None:
    assert launched("echo $HOME ; {argv}", NODE)[:3] == ("echo", "$HOME", ";")


@pytest.mark.parametrize("template", ["", "  ", "ssh 'open"])
def test_a_template_that_is_none(template: str) -> None:
    with pytest.raises(UsageError, match="--launcher"):
        launched(template, NODE)


def shell_node(code: str) -> tuple[str, ...]:
    """A node of Python code behind a launcher that only reads its last word, as ssh's other end does."""
    return launched("sh -c", replace(NODE, program=f"{sys.executable} -c", argv=(code,)))


def test_the_word_means_the_same_to_a_shell() -> None:
    code = "import os, sys; print(os.environ['VLLM_HOST_IP'], '$HOME', \"it's\"); sys.exit(7)"
    with subprocess.Popen(shell_node(code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        assert node.stdout.read() == "10.0.0.2 $HOME it's\n"
        assert node.wait(20) == 7


def test_a_node_behind_a_shell_ends_with_its_input() -> None:
    code = "print('up', flush=True); import signal; signal.pause()"
    node = subprocess.Popen(shell_node(code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert node.stdin is not None
    assert node.stdout is not None
    assert node.stdout.readline() == "up\n"
    node.stdin.close()
    assert node.wait(20) == 128 + 15
    node.stdout.close()


def test_nodes_of_this_machine_are_started_and_others_left_to_a_person(tmp_path: Path) -> None:
    spec = with_nodes(SPEC, ("127.0.0.1", "127.0.0.2", "203.0.113.9"))
    members = members_of(spec, program=("/opt/vllm",), launcher=None, log_path=tmp_path / "a.log")
    assert [member.argv[0] for member in members] == ["/opt/vllm", "/opt/vllm"]
    assert [Path(member.log).name for member in members] == ["a.log", "a-node1.log"]
    assert members[1].env == {"VLLM_HOST_IP": "127.0.0.2"}
    assert [node.address for node in by_hand(spec, None)] == ["203.0.113.9"]
    assert nodes_here(spec, None) == (0, 1)


def test_a_launcher_starts_all_but_the_first(tmp_path: Path) -> None:
    spec = with_nodes(SPEC, ("127.0.0.1", "127.0.0.2"), program="/shared/vllm")
    first, other = members_of(
        spec, program=("/opt/vllm",), launcher="ssh {address}", log_path=tmp_path / "log"
    )
    assert (first.argv[0], first.lifeline) == ("/opt/vllm", False)
    assert (other.argv[:2], other.lifeline) == (("ssh", "127.0.0.2"), True)
    assert "/shared/vllm serve m" in other.argv[2]
    (_, direct) = members_of(spec, program=("vllm",), launcher="srun {argv}", log_path=tmp_path / "log")
    assert not direct.lifeline
    assert by_hand(spec, "ssh {address}") == ()
    assert nodes_here(spec, "ssh {address}") == (0,)


def test_an_address_of_this_machine() -> None:
    assert is_here("127.0.0.1")
    assert not is_here("203.0.113.9")  # TEST-NET-3, RFC 5737: nobody's
