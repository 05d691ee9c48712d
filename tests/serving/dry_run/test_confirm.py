"""A plan and what an engine answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ropewalk.planner.records import DeviceShare, Fit, Launch, MemoryTerm, Plan, PlanRequest
from ropewalk.serving.dry_run import confirmed
from ropewalk.serving.server_report import EngineAnswer, PrintedTerm
from ropewalk.units import MIB

MakePlan = Callable[..., Plan]
TERMS = (
    MemoryTerm("weights", 92 * MIB, 92 * MIB, 92 * MIB, "exact", "tensors"),
    MemoryTerm("kv_cache", 180 * MIB, 180 * MIB, 180 * MIB, "exact", "cells"),
    MemoryTerm("compute_buffer", 30 * MIB, 20 * MIB, 40 * MIB, "estimate", "formula"),
)


@pytest.fixture
def plan(make_plan: MakePlan) -> Plan:
    """302 MiB planned on one device, up to 312, of which 310 may be used."""
    plan = make_plan(PlanRequest(context_len=8192, engine="llama-server"), checkpoint="model.gguf")
    share = DeviceShare("cpu", 92 * MIB, 180 * MIB, 302 * MIB, False, (0, 30), 312 * MIB)
    memory = replace(
        plan.memory, terms=TERMS, total_bytes=302 * MIB, high_bytes=312 * MIB, per_device=(share,)
    )
    return replace(
        plan,
        memory=memory,
        fit=Fit(310 * MIB, False, None, None, (), usable_bytes=310 * MIB),
        launch=Launch("llama-server", "11549", (), {}, "llama-server", "rules"),
    )


def answer(**sizes: int) -> EngineAnswer:
    return EngineAnswer(
        "the engine", terms=tuple(PrintedTerm(name, size, 5243) for name, size in sizes.items())
    )


def test_what_agrees_keeps_its_bytes_and_says_who_confirmed_it(plan: Plan) -> None:
    after = confirmed(plan, answer(kv_cache=180 * MIB + 5000))
    term = after.memory.term("kv_cache")
    assert term is not None
    assert (term.bytes, term.low_bytes, term.basis, term.source) == (
        180 * MIB,
        180 * MIB,
        "dry_run",
        "the engine",
    )
    assert after.launch is not None
    assert after.launch.confirmed_by == "engine"
    assert [finding.code for finding in after.findings] == ["does_not_fit"]


def test_a_range_becomes_the_engines_figure_and_may_turn_the_verdict(plan: Plan) -> None:
    after = confirmed(plan, answer(compute_buffer=25 * MIB))
    term = after.memory.term("compute_buffer")
    assert term is not None
    assert (term.bytes, term.low_bytes, term.high_bytes) == (25 * MIB, 25 * MIB - 5243, 25 * MIB + 5243)
    assert after.memory.total_bytes == 297 * MIB
    assert after.memory.high_bytes == 297 * MIB + 5243
    assert after.memory.per_device[0].total_bytes == 297 * MIB
    assert after.fit.fits is True
    assert after.findings == ()


def test_another_figure_is_taken_and_told_with_both(plan: Plan) -> None:
    after = confirmed(plan, answer(kv_cache=181 * MIB, compute_buffer=41 * MIB))
    differs = [finding for finding in after.findings if finding.code == "dry_run_differs"]
    assert [finding.where for finding in differs] == [
        {"term": "kv_cache", "planned": 180 * MIB, "engine": 181 * MIB},
        {"term": "compute_buffer", "planned": 30 * MIB, "engine": 41 * MIB},
    ]
    assert {finding.severity for finding in differs} == {"warning"}
    assert (
        differs[1].message
        == "compute_buffer: planned 20.00 MiB to 40.00 MiB, the engine says 41.00 MiB; its figure is taken"
    )
    assert after.memory.total_bytes == (92 + 181 + 41) * MIB
    assert after.memory.per_device[0].kv_bytes == 181 * MIB
    assert after.findings[0].code == "does_not_fit"


def test_a_pool_is_the_cache_where_there_is_one(plan: Plan) -> None:
    after = confirmed(plan, EngineAnswer("vllm", cache_bytes=181 * MIB))
    term = after.memory.term("kv_cache")
    assert term is not None
    assert (term.bytes, term.basis) == (181 * MIB, "dry_run")
    assert [finding.code for finding in after.findings if finding.severity == "warning"] == [
        "dry_run_differs"
    ]


@pytest.mark.parametrize(
    ("pool", "basis", "codes"), [(200, "dry_run", []), (201, "exact", ["dry_run_differs"])]
)
def test_a_pool_of_several_caches_is_told_apart_only_if_it_agrees(
    plan: Plan, pool: int, basis: str, codes: list[str]
) -> None:
    state = MemoryTerm("state", 20 * MIB, 20 * MIB, 20 * MIB, "exact", "rows")
    plan = replace(plan, memory=replace(plan.memory, terms=(*TERMS, state)))
    after = confirmed(plan, EngineAnswer("vllm", cache_bytes=pool * MIB))
    for name in ("kv_cache", "state"):
        term = after.memory.term(name)
        assert term is not None
        assert (term.basis, term.bytes) == (basis, {"kv_cache": 180, "state": 20}[name] * MIB)
    assert [finding.code for finding in after.findings if finding.severity == "warning"] == codes


def test_counts_are_held_too(plan: Plan) -> None:
    kv = replace(plan.memory.kv, num_blocks=65, block_size=128)
    plan = replace(plan, memory=replace(plan.memory, kv=kv))
    after = confirmed(plan, EngineAnswer("vllm", counts=(("block_size", 16), ("num_blocks", 65))))
    (differs,) = (finding for finding in after.findings if finding.code == "dry_run_differs")
    assert differs.where == {"term": "block_size", "planned": 128, "engine": 16}


def test_a_refusal_is_an_error_and_confirms_nothing(plan: Plan) -> None:
    after = confirmed(plan, EngineAnswer("vllm", refusal="ValueError: 9 heads"))
    assert [finding.code for finding in after.findings] == ["engine_refuses"]
    assert after.findings[0].where["reason"] == "ValueError: 9 heads"
    assert not after.positive
    assert after.launch is not None
    assert after.launch.confirmed_by == "rules"
    assert after.memory == plan.memory
