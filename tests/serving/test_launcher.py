"""Starting a server: what is waited for, what is refused, and what is said when it fails."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import stat
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk.engines import EngineBuild
from ropewalk.errors import EngineError, EngineFailedError, EngineTimeoutError
from ropewalk.planner.records import Launch, NodeLaunch
from ropewalk.serving.launcher import start
from ropewalk.serving.process import detached
from ropewalk.serving.process.engine_process import LogTail
from ropewalk.serving.process.processes import is_alive, wait_until

FAKE = Path(__file__).with_name("fake_llama_server.py")
FakeSpec = Callable[..., Launch]


@pytest.fixture
def fake_spec(tmp_path: Path) -> FakeSpec:
    """A launch of the stand-in for llama-server; keywords tell it how to misbehave."""
    program = tmp_path / "llama-server"
    program.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def spec(**fake: Any) -> Launch:
        return Launch(
            engine="llama-server",
            engine_version=None,
            command="",
            confirmed_by="rules",
            build=EngineBuild(name="llama-server", engine="llama-server", version=None, path=str(program)),
            model="model.gguf",
            argv=("-m", "model.gguf", "-a", "model", "--host", "127.0.0.1", "--port", "0"),
            env={"FAKE": json.dumps(fake)},
            host="127.0.0.1",
            port=0,
            context_len=500,
            served_context_len=512,
        )

    return spec


def test_ready_is_health_and_not_the_list_of_models(fake_spec: FakeSpec, tmp_path: Path) -> None:
    # ggml-org/llama.cpp answers /v1/models while it loads; /health is 503 until then.
    lines: list[str] = []
    with start(fake_spec(unready=3), log_path=tmp_path / "log", on_log=lines.append) as server:
        assert server.report.context_len == 512
        assert server.report.model_name == "model"
        assert server.findings == ()
        assert server.launch.port != 0
        assert server.base_url == f"http://127.0.0.1:{server.launch.port}"
    asked = [line.split('"')[1].split()[1] for line in lines if '"' in line]
    assert asked[:4] == ["/health"] * 4
    assert asked[4:7] == ["/v1/models", "/tokenize", "/completion"]


def test_a_port_of_zero_is_replaced_in_the_arguments(fake_spec: FakeSpec, tmp_path: Path) -> None:
    with start(fake_spec(), log_path=tmp_path / "log") as server:
        assert server.launch.argv[-1] == str(server.launch.port)


def test_death_while_loading_is_told_at_once_with_the_first_error(
    fake_spec: FakeSpec, tmp_path: Path
) -> None:
    with pytest.raises(EngineFailedError) as caught:
        start(fake_spec(dies="loading"), log_path=tmp_path / "log", ready_timeout=600)
    assert str(caught.value) == (
        "llama-server ended with status 1 while it started: "
        "llama_model_load: error loading model: the tensors are of cheese"
    )
    assert caught.value.where["log"] == str(tmp_path / "log")


def test_death_at_the_first_request_is_no_ready_server(fake_spec: FakeSpec, tmp_path: Path) -> None:
    with pytest.raises(EngineFailedError, match=r"by SIGKILL at its first request: .* was too much"):
        start(fake_spec(dies="request"), log_path=tmp_path / "log")


def test_a_server_that_never_gets_ready(fake_spec: FakeSpec, tmp_path: Path) -> None:
    with pytest.raises(
        EngineTimeoutError, match=r"not ready in time; its log ends:\n# .*llama-server"
    ) as caught:
        start(fake_spec(unready=10**6), log_path=tmp_path / "log", ready_timeout=0)
    assert caught.value.where == {"log": str(tmp_path / "log")}


def test_a_server_that_does_not_stop_is_killed(fake_spec: FakeSpec, tmp_path: Path) -> None:
    server = start(fake_spec(deaf=True), log_path=tmp_path / "log", grace_seconds=0.1)
    server.stop()
    assert not is_alive(server.pid)


def test_an_interrupt_ends_a_prompt_that_does_not_end_and_its_deaf_engine(
    fake_spec: FakeSpec, tmp_path: Path
) -> None:
    with start(fake_spec(deaf=True, hangs=True), log_path=tmp_path / "log", grace_seconds=0.1) as server:
        log = LogTail(tmp_path / "log")

        def interrupt() -> None:
            assert wait_until(lambda: bool(log.read_new()) and "does not end" in log.last(1), 30)
            server.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(EngineError, match="cannot be reached"):
            server.client.complete([1], max_tokens=1, cache_prompt=False)
        thread.join()
        with pytest.raises(EngineFailedError, match="was told to end"):
            server.require_alive()
        with pytest.raises(EngineError, match="cannot be reached"):
            server.client.load()
        assert wait_until(lambda: not is_alive(server.pid), 30)  # nobody but the supervisor ends it here


def test_a_start_is_interrupted_by_its_process(fake_spec: FakeSpec, tmp_path: Path) -> None:
    with pytest.raises(EngineFailedError, match="ended by SIGTERM while it started"):
        start(
            fake_spec(unready=10**6),
            log_path=tmp_path / "log",
            on_process=lambda process: process.interrupt(),
        )


def test_a_shorter_context_than_planned_is_refused(fake_spec: FakeSpec, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="takes 256 tokens per sequence; the plan is for 500") as caught:
        start(fake_spec(context=256), log_path=tmp_path / "log")
    assert caught.value.code == "slot_context_capped"
    assert caught.value.where == {"planned": 500, "reported": 256}


def test_a_shorter_context_can_be_accepted_and_is_a_finding_then(fake_spec: FakeSpec, tmp_path: Path) -> None:
    with start(fake_spec(context=256), log_path=tmp_path / "log", allow_other_context=True) as server:
        assert [finding.code for finding in server.findings] == ["slot_context_capped"]


def test_a_longer_context_is_another_plan(fake_spec: FakeSpec, tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        start(fake_spec(context=1024), log_path=tmp_path / "log")
    assert caught.value.code == "slot_context_differs"


def test_a_port_where_another_server_listens(fake_spec: FakeSpec, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(EngineError, match="another server answers there") as caught:
            start(replace(fake_spec(), port=port), log_path=tmp_path / "log")
    assert caught.value.code == "port_in_use"
    assert caught.value.exit_status == 4
    assert caught.value.where == {"host": "127.0.0.1", "port": port}
    assert not (tmp_path / "log").exists()


def test_an_answer_with_another_model_is_another_server(fake_spec: FakeSpec, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="serves other, not model") as caught:
        start(fake_spec(name="other"), log_path=tmp_path / "log")
    assert caught.value.code == "port_in_use"


def test_an_interrupt_leaves_nothing(fake_spec: FakeSpec, tmp_path: Path) -> None:
    pids: list[int] = []

    def interrupt(line: str) -> None:
        if line.startswith("I worker"):
            pids.append(int(line.split()[-1]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(fake_spec(worker=True), log_path=tmp_path / "log", on_log=interrupt)
    assert len(pids) == 1
    assert not is_alive(pids[0])


def test_settings_of_the_engine_in_the_environment_are_not_passed_on(
    fake_spec: FakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_ARG_ROPE_SCALE", "4")
    with start(fake_spec(), log_path=tmp_path / "log"):
        pass
    assert "LLAMA_ARG" not in (tmp_path / "log").read_text()


def test_an_engine_of_a_local_file_is_given_no_token_of_the_hub(
    fake_spec: FakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    seen = []
    for model in (str(tmp_path), "org/name"):
        with start(replace(fake_spec(), model=model), log_path=tmp_path / "log") as server:
            seen.append(b"HF_TOKEN=secret" in Path(f"/proc/{server.pid}/environ").read_bytes())
    assert seen == [False, True]


def test_a_server_that_could_not_be_found_again_is_not_left(
    fake_spec: FakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(detached, "servers_dir", lambda: tmp_path / "file" / "servers")
    with (
        pytest.raises(EngineError, match="the server could not be found again") as caught,
        start(fake_spec(), log_path=tmp_path / "log") as server,
    ):
        detached.leave_running(server)
    assert caught.value.code == "state_unwritable"
    assert not is_alive(server.pid)


def test_a_server_that_dies_while_it_serves(fake_spec: FakeSpec, tmp_path: Path) -> None:
    with start(fake_spec(), log_path=tmp_path / "log") as server:
        server.require_alive()
        os.kill(server.pid, signal.SIGKILL)
        assert server.wait(10)
        with pytest.raises(EngineError, match="cannot be reached"):
            server.client.context_len()
        with pytest.raises(EngineFailedError, match="by SIGKILL while it served"):
            server.require_alive()


@pytest.fixture
def group_spec(fake_spec: FakeSpec) -> FakeSpec:
    """The stand-in as node 0, and beside it one more process."""

    def spec(*, other: str = "import signal; signal.pause()", **fake: Any) -> Launch:
        single = fake_spec(**fake)
        program = f"{shlex.quote(sys.executable)} -c"
        nodes = (
            NodeLaunch(0, "127.0.0.1", "fake", single.argv, {"NODE": "0"}, "fake"),
            NodeLaunch(1, "127.0.0.2", program, (other,), {"NODE": "1"}, "other"),
        )
        return replace(single, nodes=nodes)

    return spec


LAUNCHER = "{argv}"  # starts the node's words as they are


def test_a_group_is_one_server(group_spec: FakeSpec, tmp_path: Path) -> None:
    with start(group_spec(), log_path=tmp_path / "log", launcher=LAUNCHER) as server:
        assert server.report.context_len == 512
        assert [(node.node, node.address) for node in server.nodes] == [(0, "127.0.0.1"), (1, "127.0.0.2")]
        assert all(is_alive(node.pid) for node in server.nodes)
        assert (tmp_path / "log").read_text().startswith("# ")
        server.require_alive()
    assert not any(is_alive(node.pid) for node in server.nodes)


def test_a_lost_node_ends_the_server_and_is_named(group_spec: FakeSpec, tmp_path: Path) -> None:
    spec = group_spec(other="import signal; print('last words', flush=True); signal.pause()")
    with start(spec, log_path=tmp_path / "log", launcher=LAUNCHER) as server:
        os.kill(server.nodes[1].pid, signal.SIGKILL)
        assert server.wait(20)
        with pytest.raises(EngineFailedError) as caught:
            server.require_alive()
    assert str(caught.value) == (
        "node 1 at 127.0.0.2 ended by SIGKILL while it served: it gave no reason; its log ends:\nlast words"
    )
    assert caught.value.where == {
        "log": str(tmp_path / "log-node1"),
        "node": 1,
        "address": "127.0.0.2",
        "reason": None,
    }
    assert not is_alive(server.nodes[0].pid)


def test_a_node_that_fails_while_the_first_waits_for_it(group_spec: FakeSpec, tmp_path: Path) -> None:
    spec = group_spec(other="import sys; print('error: no such model'); sys.exit(1)", unready=10**6)
    with pytest.raises(EngineFailedError, match=r"^node 1 at 127.0.0.2 ended with status 1 while it started"):
        start(spec, log_path=tmp_path / "log", launcher=LAUNCHER)


def test_a_first_node_that_fails_is_quoted_with_its_own_reason(group_spec: FakeSpec, tmp_path: Path) -> None:
    with pytest.raises(EngineFailedError, match=r"^node 0 at 127.0.0.1 .*: the tensors are of cheese"):
        start(group_spec(dies="loading"), log_path=tmp_path / "log", launcher=LAUNCHER)


def test_death_at_the_first_request_is_told_of_a_group_too(group_spec: FakeSpec, tmp_path: Path) -> None:
    with pytest.raises(
        EngineFailedError, match=r"^node 0 at 127.0.0.1 ended by SIGKILL at its first request"
    ):
        start(group_spec(dies="request"), log_path=tmp_path / "log", launcher=LAUNCHER)
