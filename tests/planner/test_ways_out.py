"""What would fit where a plan does not: each way, planned anew with what it says, fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.planner.models import llama_8b, smollm2
from tests.report.render import render
from tests.report.test_ranks import plan

from ropewalk.engines import EngineName
from ropewalk.errors import UsageError
from ropewalk.planner.machine import Machine
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan, PlanRequest, WayOut
from ropewalk.report.plan import plan_page
from ropewalk.units import GIB, MIB, parse_size

_FIELDS = {"--sequences": "num_sequences", "--context": "context_len", "--tensor-parallel": "tensor_parallel"}


def changed(request: PlanRequest, way: WayOut) -> PlanRequest:
    """The request with the options of the way."""
    flag, value = way.flags
    match flag:
        case "--cache-type":
            return replace(request, cache_type_k=value, cache_type_v=value)
        case "--memory":
            return replace(request, memory_bytes=parse_size(value))
        case "--gpu-layers":
            return replace(request, fit="gpu_layers")
        case "--n-cpu-moe":
            return replace(request, fit="cpu_moe")
        case _:
            options: dict[str, Any] = {_FIELDS[flag]: int(value)}
            return replace(request, **options)


CASES: list[tuple[EngineName, int, dict[str, Any]]] = [
    ("vllm", 131_072, {"memory_bytes": 24 * GIB}),
    ("vllm", 65_536, {"memory_bytes": 24 * GIB, "num_sequences": 4}),
    ("vllm", 8_192, {"memory_bytes": 12 * GIB}),
    ("llama-server", 131_072, {"memory_bytes": 24 * GIB, "device": "cuda"}),
    ("transformers", 131_072, {"memory_bytes": 24 * GIB}),
]


def missed(engine: EngineName, context_len: int, options: dict[str, Any]) -> Plan:
    return plan(llama_8b(), context_len, engine, **options)


@pytest.mark.parametrize(("engine", "context_len", "options"), CASES)
def test_every_way_out_fits(engine: EngineName, context_len: int, options: dict[str, Any]) -> None:
    found = missed(engine, context_len, options)
    assert found.fit.fits is False
    assert found.ways_out
    machine = Machine(kind="gpu" if engine == "vllm" else "cpu")
    for way in found.ways_out:
        assert way.needed_bytes <= way.usable_bytes
        if way.flags:
            again = make_plan(llama_8b(), changed(found.request, way), machine=machine)
            assert again.fit.fits, way
            high = {share.high_bytes for share in again.memory.per_device}
            assert way.needed_bytes in high


def test_what_gives_nothing_up_comes_first() -> None:
    found = missed("vllm", 131_072, {"memory_bytes": 24 * GIB, "num_sequences": 1})
    kinds = [way.kind for way in found.ways_out]
    assert kinds == ["tensor_parallel", "memory", "context_len", "weights"]
    assert found.ways_out[1].flags == ("--memory", "40GiB")  # 14.96 of weights, 16.00 of cache, and the rest


def test_none_is_needed_where_it_fits_or_nothing_is_known() -> None:
    assert plan(smollm2(), 4096, memory_bytes=24 * GIB).ways_out == ()
    assert plan(smollm2(), 4096).ways_out == ()


def test_the_page_has_them_with_their_price() -> None:
    text = render(plan_page(missed("vllm", 131_072, {"memory_bytes": 24 * GIB})), 120)
    assert "a larger device" in text
    assert "--memory 40GiB" in text
    assert "weights of at most" in text


def test_a_device_that_holds_nothing_at_all_still_has_larger_ones() -> None:
    found = plan(smollm2(), 4096, memory_bytes=64 * MIB)
    assert found.ways_out
    assert all(way.kind in ("memory", "tensor_parallel", "cache_type") for way in found.ways_out)


def test_a_processor_is_offered_no_placement_and_gives_no_budget_for_one() -> None:
    """What is on the host already gains nothing by layers there, and the host's memory is no card's."""
    kinds = {way.kind for way in missed("llama-server", 131_072, {"memory_bytes": 8 * GIB}).ways_out}
    assert "memory" in kinds
    assert not kinds & {"gpu_layers", "cpu_moe"}
    here = Machine(kind="cpu", memory_bytes=24 * GIB, is_here=True)
    with pytest.raises(UsageError, match="--gpu NAME or --memory SIZE"):
        make_plan(llama_8b(), PlanRequest(8192, "llama-server", fit="gpu_layers"), machine=here)
    assert make_plan(llama_8b(), PlanRequest(8192, "llama-server"), machine=here).fit.budget_bytes == 24 * GIB
