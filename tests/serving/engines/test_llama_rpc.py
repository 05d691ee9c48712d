"""RPC servers of llama.cpp: named, warned of, found again in the log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ropewalk.engines import EngineBuild
from ropewalk.errors import UsageError
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.serving.engines import launch_of, with_launch
from ropewalk.serving.engines.llama_cpp.rpc import endpoint, findings, server_of

MakePlan = Callable[..., Plan]
LLAMA = EngineBuild(name="llama-server", engine="llama-server", version="0.6.0-dev", path="llama-server")


def test_an_address() -> None:
    assert endpoint("10.0.0.2:50052") == ("10.0.0.2", 50052)
    assert endpoint("nas:1") == ("nas", 1)


@pytest.mark.parametrize(
    "wrong", ["10.0.0.2", ":50052", "nas:", "nas:0", "nas:65536", "nas:x", "[::1]:50052"]
)
def test_what_is_none(wrong: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        endpoint(wrong)


@pytest.mark.parametrize(
    ("server", "code", "severity"),
    [
        ("127.0.0.1:50052", "rpc_insecure", "warning"),
        ("192.168.1.7:50052", "rpc_insecure", "warning"),
        ("100.64.0.9:50052", "rpc_insecure", "warning"),  # RFC 6598, and what Tailscale gives
        ("nas.local:50052", "rpc_insecure", "warning"),
        ("8.8.8.8:50052", "rpc_public", "error"),
    ],
)
def test_upstreams_warning(server: str, code: str, severity: str) -> None:
    (finding,) = findings(("10.0.0.2:50052", server))
    assert (finding.code, finding.severity) == (code, severity)


def test_the_device_that_the_engine_prints() -> None:
    assert server_of("RPC0[127.0.0.1:18600]") == "127.0.0.1:18600"
    assert server_of("RPC1[127.0.0.1:18600]") == "127.0.0.1:18600"
    assert server_of("CPU_Mapped") is None


def test_the_plan_becomes_arguments_and_a_warning(make_plan: MakePlan) -> None:
    request = PlanRequest(
        context_len=4096,
        engine="llama-server",
        rpc_servers=("127.0.0.1:18600", "127.0.0.1:18601"),
        tensor_split=(3.0, 1.0),
    )
    plan = with_launch(make_plan(request, checkpoint="m.gguf"), build=LLAMA)
    assert [finding.code for finding in plan.findings] == ["rpc_insecure"]
    assert with_launch(plan, build=LLAMA).findings == plan.findings
    assert plan.launch is not None
    line = " ".join(plan.launch.argv)
    assert "--rpc 127.0.0.1:18600,127.0.0.1:18601 -ngl 999 -ts 3,1 " in line


def test_layers_that_stay_here(make_plan: MakePlan) -> None:
    request = PlanRequest(
        context_len=4096, engine="llama-server", rpc_servers=("127.0.0.1:18600",), gpu_layers=15
    )
    spec = launch_of(make_plan(request, checkpoint="m.gguf"), build=LLAMA)
    assert spec.argv[spec.argv.index("-ngl") + 1] == "15"
    assert "-ts" not in spec.argv
