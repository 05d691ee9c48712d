"""Servers that outlive the command that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ropewalk import jsonio
from ropewalk.errors import UsageError
from ropewalk.serving.process.detached import (
    DetachedServer,
    detached_servers,
    find_detached,
    servers_dir,
    stop_detached,
)
from ropewalk.serving.process.processes import descendants, is_alive, start_time

FAKE = Path(__file__).parents[1] / "fake_llama_server.py"
# Starts the stand-in for llama-server, leaves it running and ends.
STARTER = """
import sys
from pathlib import Path
from ropewalk.serving.process.detached import leave_running
from ropewalk.serving.launcher import start
from ropewalk.engines import EngineBuild
from ropewalk.planner.records import Launch
program, log, name = sys.argv[1:]
build = EngineBuild(name="llama-server", engine="llama-server", version=None, path=program)
argv = ("-m", "model.gguf", "-a", name, "--port", "0")
lengths = {"context_len": 512, "served_context_len": 512}
spec = Launch("llama-server", None, argv, {}, "", "rules", model="model.gguf", build=build, **lengths)
with start(spec, log_path=Path(log)) as server:
    leave_running(server)
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder for state of the test's own; whatever a test leaves running is stopped."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    for server in detached_servers():
        if server.is_here:
            stop_detached(server)


def leave(tmp_path: Path, name: str, starter: str = STARTER) -> DetachedServer:
    """A server that a command of its own has started and left."""
    program = tmp_path / "llama-server"
    program.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
    program.chmod(0o755)
    subprocess.run([sys.executable, "-c", starter, program, tmp_path / f"{name}.log", name], check=True)
    return find_detached(name)


def test_it_runs_on_and_can_be_stopped(tmp_path: Path) -> None:
    server = leave(tmp_path, "model")
    assert is_alive(server.pid)
    assert server.context_len == 512
    assert server.command.startswith("llama-server -m model.gguf -a model --port ")
    assert server.log_path == str(tmp_path / "model.log")
    assert detached_servers() == (server,)
    assert find_detached() == find_detached(server.port) == find_detached(str(server.pid)) == server
    stop_detached(server)
    assert not is_alive(server.pid)
    assert not is_alive(server.supervisor_pid)
    assert detached_servers() == ()
    stop_detached(server)


def test_one_of_several_must_be_named(tmp_path: Path) -> None:
    servers = leave(tmp_path, "one"), leave(tmp_path, "two")
    with pytest.raises(UsageError, match="2 servers that were left running; there are: one on port"):
        find_detached()
    with pytest.raises(UsageError, match="'three' names 0 of the servers"):
        find_detached("three")
    assert find_detached("two") == servers[1]


def test_a_server_that_ended_is_forgotten(tmp_path: Path) -> None:
    server = leave(tmp_path, "model")
    os.kill(server.pid, signal.SIGKILL)
    stop_detached(server)
    assert detached_servers() == ()
    assert list(servers_dir().iterdir()) == []


def test_a_process_that_got_the_same_id_is_not_touched(tmp_path: Path) -> None:
    server = leave(tmp_path, "model")
    stranger = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    mistaken = replace(server, supervisor_pid=stranger.pid)
    assert start_time(stranger.pid) != server.supervisor_start_time
    (servers_dir() / "mistaken.json").write_text(jsonio.dumps(mistaken))
    assert detached_servers() == (server,)
    stop_detached(mistaken)
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_servers_of_other_machines_and_namespaces_are_listed_and_left_alone(tmp_path: Path) -> None:
    server = leave(tmp_path, "model")
    boot, _, namespace = server.space.partition("n")
    other_boot = "0" * 32
    foreign = (
        replace(
            server, name="elsewhere", supervisor_pid=4194305, host="other", space=f"{other_boot}n{namespace}"
        ),
        replace(server, name="beside", supervisor_pid=4194305, space=f"{boot}n1"),
    )
    for record in foreign:
        (servers_dir() / f"{record.supervisor_pid}-{record.space}.json").write_text(jsonio.dumps(record))
    assert {one.name: one.is_here for one in detached_servers()} == {
        "model": True,
        "elsewhere": False,
        "beside": False,
    }
    assert find_detached() == server
    with pytest.raises(UsageError, match="runs on other") as caught:
        stop_detached(foreign[0])
    assert caught.value.code == "server_elsewhere"
    stop_detached(server)
    assert len(detached_servers()) == len(list(servers_dir().iterdir())) == 2
    with pytest.raises(UsageError, match=r"no server was left running.*; of .*other"):
        find_detached()


def test_a_server_from_before_the_machine_was_started_anew_is_forgotten(tmp_path: Path) -> None:
    server = leave(tmp_path, "model")
    stop_detached(server)
    old = replace(server, space=f"{'0' * 32}n1")
    (servers_dir() / "old.json").write_text(jsonio.dumps(old))
    assert detached_servers() == ()
    assert list(servers_dir().iterdir()) == []


@pytest.mark.parametrize("text", ["", '{"name": "mod', "[]", '{"name": 1}', "\0"])
def test_a_record_that_was_cut_short_breaks_nothing(text: str, tmp_path: Path) -> None:
    servers_dir().mkdir(parents=True)
    (servers_dir() / "1.json").write_text(text)
    (servers_dir() / "2.json").mkdir()
    assert detached_servers() == ()
    server = leave(tmp_path, "model")
    assert detached_servers() == (server,)


def test_nothing_is_left_running() -> None:
    with pytest.raises(UsageError, match="no server was left running; `ropewalk serve --detach` leaves one"):
        find_detached()


def test_a_group_is_stopped_whole(tmp_path: Path) -> None:
    starter = STARTER.replace(
        "with start(spec, log_path=Path(log)) as",
        "from dataclasses import replace\n"
        "from ropewalk.planner.records import NodeLaunch\n"
        "pause = ('import signal; signal.pause()',)\n"
        "other = NodeLaunch(1, '127.0.0.2', f'{sys.executable} -c', pause, {}, '')\n"
        "spec = replace(spec, nodes=(NodeLaunch(0, '127.0.0.1', 'x', argv, {}, ''), other))\n"
        "with start(spec, log_path=Path(log), launcher='{argv}') as",
    )
    server = leave(tmp_path, "group", starter)
    assert server.nodes == ("127.0.0.1", "127.0.0.2")
    family = (server.pid, *descendants(server.pid))
    assert len(family) == 3  # who watches, and both nodes
    assert all(map(is_alive, family))
    stop_detached(server)
    assert not any(map(is_alive, family))
