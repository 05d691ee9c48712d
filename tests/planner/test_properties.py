"""What must hold for every model, engine and request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.planner.models import (
    attention,
    deepseek_v3,
    every,
    gemma3_27b,
    gpt_oss_20b,
    inspection,
    qwen3_8b,
    qwen3_next_80b,
    smollm2,
)

from ropewalk import jsonio
from ropewalk.engines import EngineName, planned_engines
from ropewalk.errors import UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines import rules_of
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.parallel import check_tensor_parallel
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Memory, Plan, PlanRequest
from ropewalk.planner.terms import memory_of

MODELS = [smollm2(), qwen3_8b(), gemma3_27b(), gpt_oss_20b(), deepseek_v3(indexer=128), qwen3_next_80b()]
MACHINES = [Machine(kind="cpu"), Machine(kind="gpu")]
models = st.sampled_from(MODELS)
engines: st.SearchStrategy[EngineName] = st.sampled_from(planned_engines())
RULES = {engine: rules_of(engine) for engine in planned_engines()}  # imported before the clock runs
machines = st.sampled_from(MACHINES)
lengths = st.integers(1, 300_000)
counts = st.integers(1, 64)
options = st.fixed_dictionaries(
    {},
    optional={
        "kv_unified": st.booleans(),
        "swa_full": st.booleans(),
        "flash_attn": st.sampled_from(["on", "off", "auto"]),
        "ubatch": st.sampled_from([64, 512, 2048]),
        "max_batched_tokens": st.sampled_from([512, 8192]),
    },
)


def memory(model: Inspection, request: PlanRequest, machine: Machine) -> Memory:
    chosen = rules_of(request.engine).memory_model(PlanningCase(shape_of(model), request, machine))
    return memory_of(chosen.estimate_memory(request.context_len, request.num_sequences))


@given(models, engines, machines, lengths, st.integers(0, 20_000), counts, options)
def test_memory_grows_with_the_context(
    model: Inspection,
    engine: EngineName,
    machine: Machine,
    length: int,
    more: int,
    count: int,
    chosen: dict[str, Any],
) -> None:
    request = PlanRequest(length, engine, num_sequences=count, **chosen)
    short = memory(model, request, machine)
    long = memory(model, replace(request, context_len=length + more), machine)
    assert short.total_bytes <= long.total_bytes
    assert short.high_bytes <= long.high_bytes
    assert short.kv.logical_bytes <= long.kv.logical_bytes


@given(models, engines, machines, lengths, counts, st.integers(0, 8), options)
def test_memory_grows_with_sequences(
    model: Inspection,
    engine: EngineName,
    machine: Machine,
    length: int,
    count: int,
    more: int,
    chosen: dict[str, Any],
) -> None:
    request = PlanRequest(length, engine, num_sequences=count, **chosen)
    few = memory(model, request, machine)
    many = memory(model, replace(request, num_sequences=count + more), machine)
    assert apart_from_rows(few) <= apart_from_rows(many)


def apart_from_rows(memory: Memory) -> int:
    """The upper end without llama.cpp's compute buffer: its rows are the ubatch rounded up to a multiple
    of the slots, 520 for 26 but 513 for 27."""
    return sum(term.high_bytes for term in memory.terms if term.name != "compute_buffer")


@given(models, lengths, counts, options)
def test_memory_grows_with_the_bits_of_the_cache(
    model: Inspection, length: int, count: int, chosen: dict[str, Any]
) -> None:
    names = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "f16", "f32")
    sizes = [
        memory(
            model,
            PlanRequest(length, "llama-server", count, cache_type_k=name, cache_type_v=name, **chosen),
            MACHINES[0],
        ).kv.reserved_bytes
        for name in names
    ]
    assert sizes == sorted(sizes)


@given(engines, machines, lengths, counts, st.integers(1, 8192), options)
def test_a_window_never_costs_more_than_full_attention(
    engine: EngineName, machine: Machine, length: int, count: int, window: int, chosen: dict[str, Any]
) -> None:
    """One block more at most, where a window starts inside one (vLLM)."""
    full, sliding = every(24, 4)
    dimensions: dict[str, Any] = {"hidden": 2048, "inner": 8192, "vocab": 32_000, "heads": 16}
    windowed = inspection(
        (attention(full, kv=4, dim=128), attention(sliding, kv=4, dim=128, window=window)), **dimensions
    )
    plain = inspection((attention(range(24), kv=4, dim=128),), **dimensions)
    request = PlanRequest(length, engine, num_sequences=count, **chosen)
    cheap, dear = memory(windowed, request, machine).kv, memory(plain, request, machine).kv
    spare = cheap.block_size * cheap.bytes_per_token * count if engine == "vllm" else 0
    assert cheap.logical_bytes <= dear.logical_bytes
    assert cheap.reserved_bytes <= dear.reserved_bytes + spare
    assert cheap.bytes_per_token == dear.bytes_per_token


@given(
    models,
    engines,
    machines,
    lengths,
    counts,
    options,
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 3]),
)
def test_terms_sum_and_nothing_is_below_what_is_needed(
    model: Inspection,
    engine: EngineName,
    machine: Machine,
    length: int,
    count: int,
    chosen: dict[str, Any],
    ranks: int,
    stages: int,
) -> None:
    heads = model.value("num_attention_heads")
    request = PlanRequest(
        length,
        engine,
        num_sequences=count,
        tensor_parallel=ranks if heads % ranks == 0 else 1,
        pipeline_parallel=stages,
        **chosen,
    )
    found = memory(model, request, machine)
    assert found.total_bytes == sum(term.bytes for term in found.terms)
    assert found.total_bytes == sum(share.total_bytes for share in found.per_device)
    assert found.high_bytes == sum(share.high_bytes or 0 for share in found.per_device)
    assert found.kv.reserved_bytes >= found.kv.logical_bytes
    for term in found.terms:
        assert 0 <= term.low_bytes <= term.bytes <= term.high_bytes
        assert term.source
        if term.basis == "exact":
            assert term.low_bytes == term.high_bytes


@settings(max_examples=40, deadline=None)  # a loaded machine is no fault
@given(models, engines, machines, st.integers(1, 65_536), st.integers(1, 8), st.integers(1, 400), options)
def test_what_fits_is_the_inverse_of_what_is_needed(
    model: Inspection,
    engine: EngineName,
    machine: Machine,
    length: int,
    count: int,
    gib: int,
    chosen: dict[str, Any],
) -> None:
    most = rules_of(engine).MAX_SEQUENCES
    count = count if most is None else min(count, most)
    request = PlanRequest(length, engine, num_sequences=count, memory_bytes=gib * 2**30, **chosen)
    fit = make_plan(model, request, machine=machine).fit
    usable = fit.usable_bytes
    assert usable is not None

    def fits(context_len: int, num_sequences: int) -> bool:
        chosen = rules_of(engine).memory_model(PlanningCase(shape_of(model), request, machine))
        return chosen.estimate_memory(context_len, num_sequences).shortfall_bytes <= 0

    assert fit.fits is fits(length, count)
    assert fit.fits is (fit.max_context_len is not None and fit.max_context_len >= length)
    assert fit.fits is (fit.max_sequences is not None and fit.max_sequences >= count)
    if fit.max_context_len is not None and fit.max_context_len < 2**31 - 1:
        assert fits(fit.max_context_len, count)
        assert not fits(fit.max_context_len + 1, count)
    if fit.max_sequences is not None:
        assert fits(length, fit.max_sequences)
        assert fit.max_sequences == most or not fits(length, fit.max_sequences + 1)


cuts = st.fixed_dictionaries(
    {
        "tensor_parallel": st.sampled_from([1, 2, 4]),
        "pipeline_parallel": st.integers(1, 3),
        "data_parallel": st.integers(1, 3),
    }
)


@settings(max_examples=40, deadline=None)
@given(models, st.integers(1, 65_536), st.integers(1, 6), st.lists(st.integers(2, 400), min_size=9), cuts)
def test_ranks_of_unlike_memory(
    model: Inspection, length: int, count: int, gib: list[int], chosen: dict[str, Any]
) -> None:
    """Each rank is judged by its own budget; blocks, verdict and what fits say the same."""
    try:
        check_tensor_parallel(shape_of(model), chosen["tensor_parallel"])
    except UsageError:
        assume(False)
    nodes = chosen["pipeline_parallel"] * chosen["data_parallel"]
    sizes = tuple(size * 2**30 for size in gib[:nodes])
    request = PlanRequest(
        length, "vllm", count, nodes=nodes, node_memory_bytes=sizes, max_batched_tokens=2048, **chosen
    )
    found = make_plan(model, request, machine=MACHINES[1])
    shares = found.memory.per_device
    assert found.fit.fits is all(share.fits for share in shares)
    assert found.fit.fits is (found.fit.max_context_len is not None and found.fit.max_context_len >= length)
    assert found.fit.fits is (found.fit.max_sequences is not None and found.fit.max_sequences >= count)
    places = [share.place for share in shares if share.place]
    assert sum(place.tightest for place in places) == (len(shares) > 1)
    for share in shares:
        if share.place is not None and share.place.blocks is not None:
            assert share.fits is (found.memory.kv.num_blocks <= share.place.blocks)
    assert jsonio.loads(Plan, jsonio.dumps(found)) == found
