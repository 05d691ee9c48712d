"""The search for the cheapest cut, the advice, and what ranks send each other."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from tests.planner.models import deepseek_v3, gemma3_270m, llama_8b, qwen3_8b, smollm2

from ropewalk.engines import EngineName
from ropewalk.errors import UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.links import LINKS
from ropewalk.planner.machine import Machine
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Advice, Candidate, Parallel, Plan, PlanRequest, Traffic
from ropewalk.units import GIB, MIB

GPU = Machine(kind="gpu")


def plan(model: Inspection, context_len: int = 32_768, **options: Any) -> Plan:
    return make_plan(model, PlanRequest(context_len, "vllm", **{"arm": "shipped", **options}), machine=GPU)


def parallel(found: Plan) -> Parallel:
    assert found.parallel is not None
    return found.parallel


def traffic(model: Inspection, **options: Any) -> dict[str, Traffic]:
    return {one.kind: one for one in parallel(plan(model, **options)).traffic}


def test_one_device_has_none_of_it() -> None:
    assert plan(qwen3_8b(), memory_bytes=80 * GIB).parallel is None


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_what_shards_send(ranks: int) -> None:
    """Qwen3-8B: 2 x 36 + 1 all-reduces of 4,096 bf16, on a ring 2 (n - 1) / n of each."""
    sent = traffic(qwen3_8b(), tensor_parallel=ranks)["tensor"]
    assert sent.operations == 73
    assert sent.bytes_per_token == 73 * 8192 * 2 * (ranks - 1) // ranks
    assert (sent.between_nodes, sent.low_seconds, sent.high_seconds) == (False, None, None)


def test_what_stages_send() -> None:
    """Hidden states and residual at each border."""
    sent = traffic(qwen3_8b(), pipeline_parallel=4)
    assert list(sent) == ["pipeline"]
    assert (sent["pipeline"].operations, sent["pipeline"].bytes_per_token) == (3, 3 * 2 * 4096 * 2)


def test_how_long_it_takes() -> None:
    inside, between = LINKS["h100-sxm"]
    same = traffic(qwen3_8b(), tensor_parallel=8, link_speed=(inside, between))["tensor"]
    apart = traffic(qwen3_8b(), tensor_parallel=8, nodes=2, link_speed=(inside, between))["tensor"]
    assert same.low_seconds == same.bytes_per_token / 450e9
    assert apart.low_seconds == same.bytes_per_token / 50e9
    assert apart.high_seconds == pytest.approx(apart.low_seconds + 73 * 10e-6)


def test_shards_on_several_nodes_are_told() -> None:
    """16 shards on two nodes of 8, where 8 shards and 2 stages would stay inside."""
    crossing = plan(llama_8b(), tensor_parallel=16, nodes=2)
    (finding,) = [f for f in crossing.findings if f.code == "tensor_parallel_crosses_nodes"]
    assert finding.where["fix"] == "--tensor-parallel 8 --pipeline-parallel 2"
    assert finding.where["bytes_per_token"] == 65 * 8192 * 2 * 15 // 16
    inside = plan(llama_8b(), tensor_parallel=8, pipeline_parallel=2, nodes=2)
    assert "tensor_parallel_crosses_nodes" not in {f.code for f in inside.findings}


def test_heads_that_are_repeated_are_told() -> None:
    found = plan(llama_8b(), tensor_parallel=16)
    (finding,) = [f for f in found.findings if f.code == "kv_heads_replicated"]
    assert finding.where["copies"] == 2
    assert finding.where["fix"].startswith("--decode-context-parallel 2")
    (one_head,) = [
        f for f in plan(gemma3_270m(), tensor_parallel=2).findings if f.code == "kv_heads_replicated"
    ]
    assert one_head.where["copies"] == 2
    latent = plan(deepseek_v3(), tensor_parallel=8)
    assert {f.where["copies"] for f in latent.findings if f.code == "kv_heads_replicated"} == {8}


def advice(found: Plan, kind: str) -> Advice:
    return next(one for one in parallel(found).advice if one.kind == kind)


def options_of(one: Advice) -> dict[str, Any]:
    """The fields that the words of an advice set."""
    pairs = zip(one.flags[::2], one.flags[1::2], strict=True)
    fields = {flag.removeprefix("--").replace("-", "_"): value for flag, value in pairs}
    return {
        name: tuple(map(int, value.split(","))) if name == "layer_partition" else int(value)
        for name, value in fields.items()
    }


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (llama_8b(), {"tensor_parallel": 16, "memory_bytes": 24 * GIB}),
        (qwen3_8b(), {"tensor_parallel": 8, "memory_bytes": 24 * GIB}),
        (gemma3_270m(), {"tensor_parallel": 2, "pipeline_parallel": 2, "memory_bytes": 8 * GIB}),
        (qwen3_8b(), {"tensor_parallel": 2, "pipeline_parallel": 2, "memory_bytes": 16 * GIB}),
    ],
)
def test_advice_is_what_a_plan_for_it_says(model: Inspection, options: dict[str, Any]) -> None:
    found = plan(model, **options)
    assert parallel(found).advice
    for one in parallel(found).advice:
        other = plan(model, **{**options, **options_of(one)})
        assert (other.fit.max_context_len, other.fit.max_sequences) == (
            one.max_context_len,
            one.max_sequences,
        )
        assert (one.max_context_len or 0) > (found.fit.max_context_len or 0) or (one.max_sequences or 0) > (
            found.fit.max_sequences or 0
        )


def test_sharing_the_tokens_holds_twice_as_many() -> None:
    found = plan(llama_8b(), tensor_parallel=16, memory_bytes=24 * GIB)
    shared = advice(found, "context_parallel")
    assert shared.flags == ("--decode-context-parallel", "2")
    assert (shared.max_context_len or 0) > 1.99 * (found.fit.max_context_len or 0)


def test_replicas_hold_more_sequences_only() -> None:
    """Gemma's one KV head on 4 ranks: replicas hold as long a context, and more of them."""
    found = plan(gemma3_270m(), 4096, tensor_parallel=4, memory_bytes=8 * GIB)
    copies = advice(found, "replicas")
    assert copies.flags[-2:] == ("--data-parallel", "4")
    assert (copies.max_sequences or 0) > 3 * (found.fit.max_sequences or 0)


def test_layers_move_away_from_the_embedding() -> None:
    """SmolLM2 in three stages with 60 MiB left at both ends, where the embedding of 54 MiB is: no other
    partition holds more."""
    ends, middle, _ = plan(smollm2(), 2048, pipeline_parallel=3).memory.per_device
    budget = ((ends.high_bytes or 0) - ends.kv_bytes + 60 * MIB) * 100 // 92
    found = plan(smollm2(), 2048, pipeline_parallel=3, memory_bytes=budget)
    moved = advice(found, "layers")
    assert moved.flags[0] == "--layer-partition"
    assert ends.weights_bytes > middle.weights_bytes
    assert (moved.max_context_len or 0) > 1.1 * (found.fit.max_context_len or 0)
    reached = [
        plan(smollm2(), 2048, pipeline_parallel=3, memory_bytes=budget, layer_partition=sizes).fit
        for sizes in product(range(7, 12), range(9, 15), range(7, 12))
        if sum(sizes) == 30
    ]
    assert max(fit.max_context_len or 0 for fit in reached) == moved.max_context_len


def test_an_even_cut_stays() -> None:
    """SmolLM2 in 7, 8, 8, 7 blocks: those with the embedding have fewer already."""
    found = plan(smollm2(), pipeline_parallel=4, memory_bytes=4 * GIB)
    assert "layers" not in {one.kind for one in parallel(found).advice}


@pytest.mark.parametrize("engine", ["llama-server", "transformers"])
def test_engines_that_cut_by_themselves_get_none(engine: EngineName) -> None:
    request = PlanRequest(8192, engine, pipeline_parallel=2, tensor_parallel=2, memory_bytes=24 * GIB)
    found = parallel(make_plan(qwen3_8b(), request, machine=GPU))
    assert (found.advice, found.traffic) == ((), ())
    assert found.tightest is not None


def test_no_advice_without_a_budget() -> None:
    assert parallel(plan(llama_8b(), tensor_parallel=16)).advice == ()


def search(model: Inspection, context_len: int, **options: Any) -> Plan:
    return plan(model, context_len, fit="nodes", **options)


def row(one: Candidate) -> tuple[int, int, int, bool]:
    return one.nodes, one.tensor_parallel, one.pipeline_parallel, one.fits


def test_the_fewest_devices() -> None:
    """Llama-3.1-8B at 4 x 128k on 24 GiB: 15 GiB of weights and 64 GiB of cache."""
    found = search(llama_8b(), 131_072, num_sequences=4, memory_bytes=24 * GIB, gpus_per_node=8)
    assert found.fit.fits is True
    assert found.request.fit == "asked"
    candidates = parallel(found).candidates
    (chosen,) = [one for one in candidates if one.chosen]
    assert row(chosen) == (1, 1, 4, True)  # stages send least
    four = {row(one)[:3] for one in candidates if one.tensor_parallel * one.pipeline_parallel == 4}
    assert four == {(1, 1, 4), (1, 2, 2), (1, 4, 1)}
    fewer = [one for one in candidates if one.tensor_parallel * one.pipeline_parallel < 4]
    assert not any(one.fits for one in fewer)
    assert all(one.reason.startswith("lacks ") for one in fewer)
    # Nothing with fewer devices fits, whatever the cut.
    for shards, stages in ((1, 1), (2, 1), (1, 2), (1, 3)):
        other = plan(
            llama_8b(), 131_072, num_sequences=4, memory_bytes=24 * GIB, tensor_parallel=shards,
            pipeline_parallel=stages,
        )  # fmt: skip
        assert other.fit.fits is False


def test_the_chosen_one_is_the_plan() -> None:
    found = search(llama_8b(), 131_072, num_sequences=4, memory_bytes=24 * GIB, gpus_per_node=2)
    assert (found.request.nodes, found.request.pipeline_parallel) == (2, 4)
    assert found == replace(plan_again(found), parallel=found.parallel)


def plan_again(found: Plan) -> Plan:
    return make_plan(llama_8b(), found.request, machine=GPU)


def test_a_cut_that_fits_only_when_balanced() -> None:
    """Two nodes of which the first is small: layers move to the other."""
    sizes = (10 * GIB, 24 * GIB)
    found = search(llama_8b(), 65_536, node_memory_bytes=sizes, gpus_per_node=1)
    (chosen,) = [one for one in parallel(found).candidates if one.chosen]
    assert chosen.fits
    assert chosen.layer_partition
    assert found.request.layer_partition == chosen.layer_partition
    assert found.fit.fits is True


def test_nothing_is_large_enough() -> None:
    found = search(llama_8b(), 131_072, num_sequences=64, memory_bytes=16 * GIB, gpus_per_node=4, nodes=2)
    assert found.fit.fits is False
    assert sum(one.chosen for one in parallel(found).candidates) == 1
    assert not any(one.fits for one in parallel(found).candidates)


def test_devices_per_node_must_be_known() -> None:
    with pytest.raises(UsageError, match="--memory and --gpus-per-node"):
        search(llama_8b(), 4096, gpus_per_node=8)
    with pytest.raises(UsageError, match="--memory and --gpus-per-node"):
        search(llama_8b(), 4096, memory_bytes=GIB)
