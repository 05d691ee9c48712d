"""A real vLLM over several nodes, each a process of its own on an address of the loopback.

Ranks take half a minute to start and 4.5 GB together. Two blocks of 32 tokens hold 1.5 MB in all layers, so
that 200 MB are 271 blocks where one rank has all heads and layers (vLLM 0.32.0, measured).
"""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk import core
from ropewalk.engines import EngineBuild
from ropewalk.errors import EngineFailedError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.records import Launch, NodeLaunch
from ropewalk.serving.engines import launch_of
from ropewalk.serving.engines.vllm.client import VllmClient
from ropewalk.serving.launcher import RunningServer, start
from ropewalk.serving.preflight import preflight
from ropewalk.serving.process.ports import free_port
from ropewalk.serving.process.processes import descendants, is_alive
from ropewalk.serving.records import Topology

pytestmark = pytest.mark.slow

CACHE = {"--kv-cache-memory-bytes": "200000000", "--block-size": "32"}
# Without --enforce-eager, with which the first request kills a pipeline on the CPU (0.32.0,
# v1/worker/gpu_model_runner.py:3174), and without a minute of compilation.
EAGER_PIPELINE = ("-cc", '{"mode":2,"backend":"eager"}')
Spec = Callable[..., Launch]


@pytest.fixture(scope="module")
def inspection(smollm2_hf: Path) -> Inspection:
    return core.inspect(smollm2_hf)


@pytest.fixture
def spec(vllm: EngineBuild, inspection: Inspection) -> Spec:
    """A launch over nodes on the loopback with the cache of the table; its checks have passed."""

    def make(*more: str, nodes: int, program: str = "vllm", **options: Any) -> Launch:
        plan = core.plan(inspection, engine="vllm", context_len=2048, nodes=nodes, device="cpu", **options)
        addresses = tuple(f"127.0.0.{number + 1}" for number in range(nodes))
        spread = Topology(addresses, master_port=free_port(), program=program)
        spec = launch_of(plan, build=vllm, port=0, threads=1, spread=spread)
        failed = [item for item in preflight(plan, spec, inspection, spread=spread) if item.ok is False]
        assert failed == []
        changed = [_changed(node, more) for node in spec.nodes]
        return replace(spec, argv=changed[0].argv, nodes=tuple(changed))

    return make


def _changed(node: NodeLaunch, more: tuple[str, ...]) -> NodeLaunch:
    words = list(node.argv)
    for flag, value in CACHE.items():
        if flag in words:
            words[words.index(flag) + 1] = value
        else:
            words += [flag, value]
    return replace(node, argv=(*words, *more))


def blocks(server: RunningServer) -> int:
    assert isinstance(server.client, VllmClient)
    return int(server.client.cache_config()["num_gpu_blocks"])


def answer(server: RunningServer) -> str:
    tokens = server.client.tokenize("The capital of France is", add_special=True, parse_special=False)
    return server.client.complete(tokens, max_tokens=1, cache_prompt=False).text


@pytest.fixture
def family() -> Iterator[list[int]]:
    """Process ids that must be gone when the test is over."""
    pids: list[int] = []
    yield pids
    assert len(pids) > 5
    assert not any(map(is_alive, pids))


def test_tensor_parallel_over_three_nodes_of_which_one_is_killed(
    spec: Spec, tmp_path: Path, family: list[int]
) -> None:
    """One KV head per rank holds three times as many blocks. Node 0 says nothing of its loss: it ends with
    status 0."""
    launch = spec("--enforce-eager", nodes=3, tensor_parallel=3)
    with start(launch, log_path=tmp_path / "log", ready_timeout=600) as server:
        assert (blocks(server), answer(server)) == (813, " Paris")
        assert [node.address for node in server.nodes] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
        family += [server.pid, *descendants(server.pid)]
        os.kill(server.nodes[2].pid, signal.SIGKILL)
        assert server.wait(60)
        with pytest.raises(EngineFailedError, match=r"^node 2 at 127\.0\.0\.3 ended by SIGKILL") as caught:
            server.require_alive()
    assert caught.value.where["node"] == 2
    assert caught.value.where["log"] == str(tmp_path / "log-node2")


def test_an_uneven_pipeline_over_two_nodes_one_of_which_a_launcher_starts(
    spec: Spec, vllm: EngineBuild, tmp_path: Path, family: list[int]
) -> None:
    """The stage of 20 layers decides: the other one had room for 813 blocks. The shell reads the one word
    that the other end of ssh would."""
    program = shlex.join((vllm.path, "-P", "-m", "vllm.entrypoints.cli.main"))
    launch = spec(*EAGER_PIPELINE, nodes=2, program=program, pipeline_parallel=2, layer_partition=(20, 10))
    assert {node.env["VLLM_PP_LAYER_PARTITION"] for node in launch.nodes} == {"20,10"}
    with start(launch, log_path=tmp_path / "log", ready_timeout=600, launcher="sh -c") as server:
        assert (blocks(server), answer(server)) == (406, " Paris")
        family += [server.pid, *descendants(server.pid)]
