"""Every start that others printed is inside what is planned, and the ranges are narrow."""

from __future__ import annotations

import pytest
from tests.planner.starts import TERMS, Start, starts

from ropewalk.units import GIB

ROUNDING = 0.005
STARTS = list(starts())
# A range that is wider than half a GiB, and why: towers are profiled with items of their own size; gpt-oss
# captures 83 sizes, and whether FlashAttention 3 splits beside windows differs by model; float32 is twice
# as wide as anything else.
WIDE = {"gpt-oss-20b": {"cuda_graphs"}}


def name_of(start: Start) -> str:
    seen = start.seen
    return f"{start.name}-{start.version}-tp{seen['tensor_parallel']}-pp{seen['pipeline_parallel']}"


@pytest.mark.parametrize("start", STARTS, ids=name_of)
def test_every_term_is_in_its_range(start: Start) -> None:
    for term in TERMS[1:]:
        if term not in start.seen:
            continue
        low, high = (end / GIB for end in start.term(term))
        assert low - ROUNDING <= start.seen[term] <= high + ROUNDING, term
        wide = start.has_towers or term in WIDE.get(start.name, ()) or start.seen["dtype"] == "float32"
        assert wide or high - low <= 0.5, term


@pytest.mark.parametrize("start", STARTS, ids=name_of)
def test_weights_from_the_config_alone(start: Start) -> None:
    assert start.loaded_bytes() / GIB == pytest.approx(start.seen["weights"], rel=0.03)
    low, high = (end / GIB for end in start.term("weights"))
    assert low - ROUNDING <= start.seen["weights"] <= high + ROUNDING


@pytest.mark.parametrize("start", [one for one in STARTS if "pool_tokens" in one.seen], ids=name_of)
def test_the_pool_of_a_start(start: Start) -> None:
    """Within 2 % where weights are read or counted to a thousandth; else by as much as they are off."""
    kv, seen = start.plan.memory.kv, start.seen
    assert kv.pool_tokens is not None
    assert kv.pool_tokens_low is not None
    assert kv.pool_tokens_high is not None
    off = abs(start.loaded_bytes() / GIB - seen["weights"])
    pool = (kv.pool_bytes or 0) / GIB
    assert kv.pool_tokens == pytest.approx(seen["pool_tokens"], rel=0.02 + off / pool)
    assert kv.pool_tokens_low <= seen["pool_tokens"] <= kv.pool_tokens_high * 1.001
    assert kv.pool_concurrency == pytest.approx(
        kv.pool_tokens / seen["pool_tokens"] * seen["pool_concurrency"], rel=0.002
    )
