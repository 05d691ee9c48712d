"""llama-server with RPC servers on the loopback, as ``.ci/llama-rpc`` builds them.

Figures: llama.cpp b11434 on SmolLM2-135M Q4_1, 30 layers of 3 MiB of cache each at 4,096 tokens.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ropewalk import core
from ropewalk.engines import EngineBuild
from ropewalk.errors import EngineError, EngineFailedError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.records import Plan
from ropewalk.serving.engines import launch_of, pick_engine
from ropewalk.serving.install import engines_dir
from ropewalk.serving.launcher import RunningServer, start
from ropewalk.serving.observed_shares import share_findings
from ropewalk.serving.preflight import PreflightItem, preflight
from ropewalk.serving.process.ports import free_port
from ropewalk.serving.process.processes import wait_until
from ropewalk.serving.server_report import term_of
from ropewalk.units import MIB

pytestmark = pytest.mark.slow

PROGRAMS = engines_dir() / "llama-rpc-11434"


@pytest.fixture(scope="module")
def llama() -> EngineBuild:
    """A llama-server with RPC."""
    if not (PROGRAMS / "ggml-rpc-server").is_file():
        pytest.skip("llama.cpp with RPC is not built: .ci/llama-rpc")
    return pick_engine("llama-server", path=str(PROGRAMS / "llama-server"))


@pytest.fixture(scope="module")
def inspection(smollm2: Path) -> Inspection:
    return core.inspect(smollm2)


def answers(port: int) -> bool:
    """Whether something listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def rpc_servers() -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Two RPC servers by their addresses."""
    with contextlib.ExitStack() as stack:
        servers = {}
        for _ in range(2):
            port = free_port()
            argv = (str(PROGRAMS / "ggml-rpc-server"), "-H", "127.0.0.1", "-p", str(port), "-t", "1")
            server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(server.wait)
            stack.callback(server.kill)
            wait_until(functools.partial(answers, port), 30)
            servers[f"127.0.0.1:{port}"] = server
        yield servers


Started = Callable[..., tuple[Plan, RunningServer, tuple[PreflightItem, ...]]]


@pytest.fixture
def started(llama: EngineBuild, inspection: Inspection, tmp_path: Path) -> Iterator[Started]:
    with contextlib.ExitStack() as stack:

        def begin(**options: Any) -> tuple[Plan, RunningServer, tuple[PreflightItem, ...]]:
            plan = core.plan(inspection, context_len=4096, engine_path=llama.path, **options)
            spec = launch_of(plan, build=llama, port=0, threads=1)
            items = tuple(preflight(plan, spec, inspection))
            return plan, stack.enter_context(start(spec, log_path=tmp_path / "log")), items

        yield begin


def answer(server: RunningServer) -> str:
    tokens = server.client.tokenize("The capital of France is", add_special=True, parse_special=False)
    return server.client.complete(tokens, max_tokens=1, cache_prompt=False).text


def cache_of(server: RunningServer, device: str) -> float:
    here = [buffer for buffer in server.report.buffers if device in buffer.device]
    term = term_of(here, "kv_cache")
    return 0.0 if term is None else term.bytes / MIB


@pytest.mark.parametrize(
    ("num_servers", "options", "cache"),
    [
        (1, {"gpu_layers": 15}, [42, 48]),
        (2, {"tensor_split": (1.0, 1.0)}, [48, 42, 0]),
        (2, {"tensor_split": (3.0, 1.0)}, [72, 18, 0]),
    ],
    ids=["one-half", "two-even", "two-three-to-one"],
)
def test_layers_are_dealt_out_as_planned(
    num_servers: int,
    options: dict[str, Any],
    cache: list[float],
    rpc_servers: dict[str, subprocess.Popen[bytes]],
    started: Started,
) -> None:
    addresses = tuple(rpc_servers)[:num_servers]
    plan, server, items = started(rpc_servers=addresses, **options)
    assert {item.name: item.ok for item in items if item.name in ("rpc", "flags")} == {
        "rpc": True,
        "flags": True,
    }
    assert [cache_of(server, device) for device in (*addresses, "CPU")] == cache
    assert list(share_findings(plan, server.report)) == []
    assert [finding.code for finding in plan.findings] == ["rpc_insecure"]
    assert answer(server) == " Paris"


def test_a_lost_server_is_the_reason_that_is_told(
    rpc_servers: dict[str, subprocess.Popen[bytes]], started: Started
) -> None:
    _, server, _ = started(rpc_servers=tuple(rpc_servers), tensor_split=(1.0, 1.0))
    next(iter(rpc_servers.values())).kill()
    with pytest.raises(EngineError):
        answer(server)
    assert server.wait(20)
    with pytest.raises(EngineFailedError) as caught:
        server.require_alive()
    assert str(caught.value) == (
        "llama-server ended by SIGABRT while it served: "
        "Remote RPC server crashed or returned malformed response"
    )
