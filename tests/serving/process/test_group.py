"""Several nodes as one process: whichever ends, all end, and the one that was lost is named."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ropewalk.serving.process.engine_process import EngineProcess, LogTail
from ropewalk.serving.process.group import LostNode, Member, arguments_of, lost_node, running_nodes
from ropewalk.serving.process.processes import is_alive, wait_until

PAUSE = "import signal; signal.pause()"
Group = Callable[..., EngineProcess]


def lines_of(path: Path) -> list[str]:
    tail = LogTail(path)
    tail.read_new()
    return tail.lines


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    """Starts programs, each as the code of one node, and stops what a test leaves running."""
    with contextlib.ExitStack() as stack:

        def start(*codes: str, lifelines: bool = False) -> EngineProcess:
            members = [
                Member(
                    node=number,
                    address=f"127.0.0.{number + 1}",
                    argv=(sys.executable, "-c", code),
                    env={"NODE": str(number)},
                    log=str(tmp_path / (f"log-node{number}" if number else "log")),
                    lifeline=lifelines and number > 0,
                )
                for number, code in enumerate(codes)
            ]
            process = EngineProcess(
                arguments_of(members, grace_seconds=5.0),
                env=os.environ,
                log_path=tmp_path / "log",
                grace_seconds=5.0,
                command=("engine",),
            )
            stack.callback(process.stop)
            return process

        yield start


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """A named pipe, as the connection between two nodes."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def wait_for(fifo: Path, count: int = 1) -> None:
    """Wait until so many nodes have opened the pipe and closed it again."""
    for _ in range(count):
        fifo.read_text()


def both_pids(log: Path) -> list[int]:
    """The processes of two nodes; one may speak before the group has written that it runs."""
    wait_until(lambda: len(running_nodes(lines_of(log))) == 2, 20.0)
    return [node.pid for node in running_nodes(lines_of(log))]


def test_a_killed_node_is_named_whatever_the_first_says(group: Group, fifo: Path, tmp_path: Path) -> None:
    """vLLM 0.32.0: node 0 ends with status 0 when node 2 of 3 is killed, node 1 waits on."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    first = f"open({str(fifo)!r}).read()"  # ends in peace when the connection does
    killed = f"held = open({str(fifo)!r}, 'w'); open({str(ready)!r}, 'w').close(); {PAUSE}"
    process = group(first, PAUSE, killed)
    wait_for(ready)
    nodes = running_nodes(lines_of(tmp_path / "log"))
    assert [(node.node, node.address) for node in nodes] == [
        (0, "127.0.0.1"),
        (1, "127.0.0.2"),
        (2, "127.0.0.3"),
    ]
    os.kill(nodes[2].pid, signal.SIGKILL)
    assert process.wait(20)
    lost = lost_node(lines_of(tmp_path / "log"))
    assert lost == LostNode(2, "127.0.0.3", "ended by SIGKILL", tmp_path / "log-node2")
    assert process.ended() == "with status 1"
    assert not any(is_alive(node.pid) for node in nodes)


def test_a_node_that_fails_is_named_before_one_that_ended_in_peace(
    group: Group, fifo: Path, tmp_path: Path
) -> None:
    """Here the status of the failing node comes later than the end of the one that noticed."""
    failing = f"import sys; open({str(fifo)!r}, 'w').close(); print('E out of cheese'); sys.exit(3)"
    process = group(f"open({str(fifo)!r}).read()", failing)
    assert process.wait(20)
    lost = lost_node(lines_of(tmp_path / "log"))
    assert lost is not None
    assert (lost.node, lost.how) == (1, "ended with status 3")
    assert lines_of(lost.log_path) == ["E out of cheese"]


def test_a_node_that_ends_in_peace_ends_the_group_too(group: Group, tmp_path: Path) -> None:
    process = group("pass", PAUSE)
    assert process.wait(20)
    lost = lost_node(lines_of(tmp_path / "log"))
    assert lost is not None
    assert (lost.node, lost.how) == (0, "ended with status 0")


def test_stop_ends_every_node_and_loses_none(group: Group, fifo: Path, tmp_path: Path) -> None:
    said = f"open({str(fifo)!r}, 'w').close(); {PAUSE}"
    process = group(said, said)
    wait_for(fifo)
    pids = both_pids(tmp_path / "log")
    process.stop()
    assert len(pids) == 2
    assert not any(map(is_alive, pids))
    assert lost_node(lines_of(tmp_path / "log")) is None


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel kills orphans on Linux alone")
@pytest.mark.parametrize("which", ["group", "supervisor"])
def test_whoever_of_those_that_watch_is_killed_no_node_is_left(
    which: str, group: Group, tmp_path: Path, fifo: Path
) -> None:
    process = group(PAUSE, f"open({str(fifo)!r}, 'w').close(); {PAUSE}")
    wait_for(fifo)
    pids = both_pids(tmp_path / "log")
    os.kill(process.pid if which == "group" else process.supervisor_pid, signal.SIGKILL)
    assert process.wait(20)
    wait_until(lambda: not any(map(is_alive, pids)), 20)
    assert not any(map(is_alive, pids))


def test_a_launcher_that_is_not_there_is_named(tmp_path: Path) -> None:
    members = [
        Member(0, "127.0.0.1", (sys.executable, "-c", PAUSE), {}, str(tmp_path / "log")),
        Member(1, "10.0.0.2", ("/no/such/ssh", "10.0.0.2"), {}, str(tmp_path / "log-node1")),
    ]
    argv = arguments_of(members, grace_seconds=5.0)
    process = EngineProcess(argv, env=os.environ, log_path=tmp_path / "log", grace_seconds=5.0)
    assert process.wait(20)
    process.stop()
    lost = lost_node(lines_of(tmp_path / "log"))
    assert lost is not None
    assert lost.how == "cannot be started: /no/such/ssh: No such file or directory"
    (node,) = running_nodes(lines_of(tmp_path / "log"))
    assert not is_alive(node.pid)


def test_a_lifeline_is_open_while_the_node_is_to_run(group: Group, fifo: Path, tmp_path: Path) -> None:
    """What a launcher started elsewhere gets no signal: it ends with its input, and is waited for."""
    deaf = (
        "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"open({str(fifo)!r}, 'w').close(); sys.stdin.read(); print('input ended')"
    )
    process = group(PAUSE, deaf, lifelines=True)
    wait_for(fifo)
    process.stop()
    assert lines_of(tmp_path / "log-node1") == ["input ended"]


def test_each_node_has_its_own_environment_and_log(group: Group, tmp_path: Path) -> None:
    process = group("import os; print('node', os.environ['NODE'])", PAUSE)
    assert process.wait(20)
    log = lines_of(tmp_path / "log")
    assert log[0] == "# engine"
    assert "node 0" in log
