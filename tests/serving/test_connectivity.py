"""Other machines are asked for before a start."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from ropewalk.engines import EngineBuild
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.serving.connectivity import Answer, reach_checks
from ropewalk.serving.engines import launch_of
from ropewalk.serving.process.ports import free_port
from ropewalk.serving.records import Topology

MakePlan = Callable[..., Plan]
VLLM = EngineBuild(name="vllm", engine="vllm", version="0.32.0", path="/usr/bin/vllm", devices=("cpu",))
LLAMA = EngineBuild(name="llama-server", engine="llama-server", version=None, path="llama-server")


@pytest.fixture
def listening() -> Iterator[str]:
    """The address of something that answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def silent() -> str:
    """An address where nothing answers."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def ask(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Answer]]:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)

    def ask(spread: Topology, **request: object) -> dict[str, Answer]:
        build = LLAMA if "rpc_servers" in request else VLLM
        plan = make_plan(PlanRequest(context_len=512, engine=build.engine, **request), checkpoint="m")  # type: ignore[arg-type]
        spec = launch_of(plan, build=build, spread=spread)
        return {name: check() for name, check in reach_checks(plan.request, spec, spread).items()}

    return ask


Ask = Callable[..., dict[str, Answer]]


def test_a_server_of_one_machine_has_nothing_to_reach(ask: Ask) -> None:
    assert ask(Topology()) == {}


def test_nodes_that_are_all_here(ask: Ask) -> None:
    spread = Topology(("127.0.0.1", "127.0.0.2"), master_port=free_port())
    assert ask(spread, nodes=2) == {"nodes": (True, "2 nodes are started and watched from here")}


def test_a_node_for_a_person_to_start(ask: Ask) -> None:
    spread = Topology(("127.0.0.1", "203.0.113.9"), master_port=free_port())
    (answer,) = ask(spread, nodes=2).values()
    assert answer == (None, "not watched, to be started by hand: node 1 at 203.0.113.9")


def test_the_first_node_is_this_machine(ask: Ask) -> None:
    (answer,) = ask(Topology(("203.0.113.9", "127.0.0.1")), nodes=2).values()
    assert answer == (False, "node 0 is started here, and 203.0.113.9 is no address of this machine")


def test_a_launcher_that_is_not_installed(ask: Ask) -> None:
    spread = Topology(("127.0.0.1", "203.0.113.9"), launcher="no-such-ssh {address}")
    (answer,) = ask(spread, nodes=2).values()
    assert answer == (False, "the launcher no-such-ssh is no program here")


def test_the_port_where_nodes_meet(ask: Ask, listening: str) -> None:
    spread = Topology(("127.0.0.1", "127.0.0.2"), master_port=int(listening.partition(":")[2]))
    ok, message = ask(spread, nodes=2)["nodes"]
    assert ok is False
    assert "another server answers there; choose another with --master-port" in message


def test_a_ray_cluster_answers_or_is_not_there(
    ask: Ask, listening: str, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(address: str | None) -> Answer:
        return ask(Topology(executor="ray", ray_address=address), nodes=2)["ray"]

    assert of(listening) == (True, f"{listening} answers")
    assert of(f"ray://{listening}") == (True, f"ray://{listening} answers")
    assert of(silent) == (False, f"no Ray cluster at {silent}: Connection refused")
    assert of("head") == (False, "'head' is no address of a Ray cluster: HOST:PORT")
    assert of("auto")[0] is None
    assert of(None) == (False, "no cluster is named: --ray-address HOST:PORT, or RAY_ADDRESS")
    monkeypatch.setenv("RAY_ADDRESS", listening)
    assert of(None)[0] is True


def test_every_rpc_server_has_to_answer(ask: Ask, listening: str, silent: str) -> None:
    assert ask(Topology(), rpc_servers=(listening,)) == {"rpc": (True, f"{listening} answer")}
    (answer,) = ask(Topology(), rpc_servers=(listening, silent)).values()
    assert answer == (False, f"no ggml-rpc-server answers at {silent} (Connection refused)")
