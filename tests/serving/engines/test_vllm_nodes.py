"""One launch of vLLM as that of several machines."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

from ropewalk.engines import EngineBuild
from ropewalk.errors import UsageError
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.serving.engines import launch_of, with_launch
from ropewalk.serving.records import Topology

MakePlan = Callable[..., Plan]
VLLM = EngineBuild(name="vllm", engine="vllm", version="0.32.0", path="/usr/bin/vllm")


@pytest.fixture
def plan(make_plan: MakePlan) -> Plan:
    request = PlanRequest(context_len=4096, engine="vllm", pipeline_parallel=2, nodes=2)
    return make_plan(request, checkpoint="/models/smol")


def test_each_node_has_the_same_flags_and_says_which_it_is(plan: Plan) -> None:
    spread = Topology(addresses=("10.0.0.1", "10.0.0.2"), master_port=29611, program="/opt/bin/vllm")
    spec = launch_of(plan, build=VLLM, port=8000, spread=spread)
    first, other = spec.nodes
    assert (first.argv, first.env) == (spec.argv, spec.env)
    shared = ("--nnodes", "2", "--node-rank", "0", "--master-addr", "10.0.0.1", "--master-port", "29611")
    assert first.argv[-8:] == shared
    assert other.argv == (*first.argv[:-8], *shared[:3], "1", *shared[4:], "--headless")
    assert (first.env, other.env) == ({"VLLM_HOST_IP": "10.0.0.1"}, {"VLLM_HOST_IP": "10.0.0.2"})
    assert (first.program, other.program) == ("vllm", "/opt/bin/vllm")
    assert shlex.split(other.command) == ["VLLM_HOST_IP=10.0.0.2", "/opt/bin/vllm", *other.argv]


def test_a_plan_has_the_commands_with_names_to_replace(plan: Plan) -> None:
    launch = with_launch(plan, build=VLLM).launch
    assert launch is not None
    assert [node.address for node in launch.nodes] == ["NODE0", "NODE1"]
    assert launch.argv == launch.nodes[0].argv
    assert "--master-addr NODE0" in launch.nodes[1].command
    placed = with_launch(plan, build=VLLM, spread=Topology(("10.0.0.1", "10.0.0.2"))).launch
    assert placed is not None
    assert "--master-addr 10.0.0.1" in placed.nodes[1].command


def test_one_node_is_a_plain_server(make_plan: MakePlan) -> None:
    plan = make_plan(PlanRequest(context_len=4096, engine="vllm"), checkpoint="/models/smol")
    spec = launch_of(plan, build=VLLM)
    assert spec.nodes == ()
    assert "--nnodes" not in spec.argv


@pytest.mark.parametrize("addresses", [("10.0.0.1",), ("10.0.0.1", "10.0.0.1"), ("a", "b", "c")])
def test_as_many_addresses_as_nodes(plan: Plan, addresses: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"2 nodes are planned, and \d addresses given"):
        launch_of(plan, build=VLLM, spread=Topology(addresses=addresses))


def test_on_ray_one_command_serves_for_all(plan: Plan) -> None:
    spread = Topology(executor="ray", ray_address="10.0.0.1:6379")
    spec = launch_of(plan, build=VLLM, spread=spread)
    assert spec.nodes == ()
    assert spec.argv[-2:] == ("--distributed-executor-backend", "ray")
    assert spec.env == {"RAY_ADDRESS": "10.0.0.1:6379"}


def test_threads_of_several_ranks_are_not_bound(plan: Plan) -> None:
    spec = launch_of(plan, build=VLLM, threads=1, spread=Topology(addresses=("10.0.0.1", "10.0.0.2")))
    assert spec.nodes[1].env == {
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "VLLM_HOST_IP": "10.0.0.2",
    }


def test_llama_server_has_no_nodes(make_plan: MakePlan) -> None:
    build = EngineBuild(name="llama-server", engine="llama-server", version=None, path="llama-server")
    plan = make_plan(PlanRequest(context_len=4096, engine="llama-server", nodes=2), checkpoint="m.gguf")
    with pytest.raises(UsageError, match="--rpc HOST:PORT"):
        launch_of(plan, build=build)
