"""Public bug reports of kind "memory", turned into inputs with the right answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.planner.models import attention, every, inspection, latent, recurrent

from ropewalk.errors import UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines import llama_server, vllm, vllm_settings
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.engines.vllm_versions import default_utilization
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import KvCache, PlanRequest
from ropewalk.planner.terms import CACHES, MemoryEstimate

CPU, GPU = Machine(kind="cpu"), Machine(kind="gpu")


@pytest.fixture
def case(shared: Path, request: pytest.FixtureRequest) -> dict[str, Any]:
    cases = json.loads((shared / "cases" / "cases.json").read_text("utf-8"))
    wanted = request.node.name.split("_")[1]
    return next(one for one in cases if one["id"] == wanted and one["kind"] == "memory")


def model_of(config: dict[str, Any], **more: Any) -> Inspection:
    heads = config.get("num_attention_heads", config["num_key_value_heads"])
    group = attention(
        range(config["num_hidden_layers"]),
        kv=config["num_key_value_heads"],
        dim=config["head_dim"],
        heads=heads,
    )
    hidden = config.get("hidden_size", 4096)
    return inspection((group,), **{"hidden": hidden, "inner": 1024, "vocab": 64, "heads": heads, **more})


def llama(model: Inspection, context_len: int, **options: Any) -> MemoryEstimate:
    request = PlanRequest(context_len, "llama-server", **options)
    return llama_server.memory_model(PlanningCase(shape_of(model), request, CPU)).estimate_memory(
        context_len, request.num_sequences
    )


def pool(model: Inspection, context_len: int, **options: Any) -> vllm.VllmMemoryModel:
    return vllm.memory_model(
        PlanningCase(shape_of(model), PlanRequest(context_len, "vllm", device="cuda:0", **options), GPU)
    )


def kv(model: Inspection, context_len: int, **options: Any) -> KvCache:
    return llama(model, context_len, **options).kv


def test_c55_kv_heads_not_query_heads(case: dict[str, Any]) -> None:
    found = (
        pool(model_of(case["input"]["config"]), case["input"]["ctx"])
        .estimate_memory(case["input"]["ctx"], 1)
        .kv
    )
    assert found.bytes_per_token == case["expected"]["bytes_per_token"]
    assert found.logical_bytes == case["expected"]["kv_bytes"]


def test_c56_block_quantised_types(case: dict[str, Any]) -> None:
    model = model_of(case["input"]["config"])
    for (key, value), expected in zip(
        case["input"]["cache_types"], case["expected"]["kv_bytes"], strict=True
    ):
        assert (
            kv(model, case["input"]["ctx"], cache_type_k=key, cache_type_v=value).reserved_bytes == expected
        )


def test_c57_windows_by_ubatch_and_slots(case: dict[str, Any]) -> None:
    config = case["input"]["config"]
    sizes = {"kv": config["num_key_value_heads"], "dim": config["head_dim"]}
    full, sliding = every(config["num_hidden_layers"], 6)
    layers = (attention(full, **sizes), attention(sliding, **sizes, window=config["sliding_window"]))
    model = inspection(layers, hidden=64, inner=64, vocab=64, heads=32)
    variants: list[dict[str, Any]] = [
        {"context_len": 131_072},
        {"context_len": 32_768, "num_sequences": 4, "kv_unified": True},
        {"context_len": 131_072, "swa_full": True},
        {"context_len": 32_768, "num_sequences": 4},
    ]
    found = [kv(model, ubatch=case["input"]["ubatch"], **variant).reserved_bytes for variant in variants]
    assert found == case["expected"]["kv_bytes"]


def test_c58_windows_by_tokens_in_flight(case: dict[str, Any]) -> None:
    kinds = {"gpt_oss_20b": (24, 2, 8, 64, 128), "gemma3_27b": (62, 6, 16, 128, 1024)}
    for name, (total, step, heads, dim, window) in kinds.items():
        full, sliding = every(total, step)
        layers = (
            attention(full, kv=heads, dim=dim),
            attention(sliding, kv=heads, dim=dim, window=window),
        )
        model = inspection(layers, hidden=64, inner=64, vocab=64, heads=64)
        length = case["input"][name]["ctx"]
        found = []
        for in_flight in case["input"][name]["max_in_flight_tokens"]:
            chosen = pool(model, length, max_batched_tokens=in_flight // 2)
            found.append(chosen.request_blocks(length) * chosen.bytes_per_block(0))
        assert found == case["expected"][f"{name}_bytes"]


def test_c59_one_latent_row(case: dict[str, Any]) -> None:
    config, expected = case["input"]["config"], case["expected"]
    layers = (latent(config["num_hidden_layers"], width=config["kv_lora_rank"] + config["qk_rope_head_dim"]),)
    model = inspection(layers, hidden=64, inner=64, vocab=64, heads=128)
    length, ranks = case["input"]["ctx"], case["input"]["tp"]
    chosen = pool(model, length, tensor_parallel=ranks)
    estimated = chosen.estimate_memory(length, 1)
    assert estimated.kv.bytes_per_token == expected["bf16_bytes_per_token"]
    each = sum(term.bytes for term in estimated.devices[0].terms if term.name in CACHES)
    assert each - chosen.bytes_per_block(0) == expected["kv_bytes_per_gpu_tp8"]
    assert kv(model, 32_768, cache_type_k="q8_0").reserved_bytes == expected["llama_cpp_q8_0_bytes_at_32768"]


def test_c60_states_beside_few_caches(case: dict[str, Any]) -> None:
    config, expected = case["input"]["config"], case["expected"]
    full, rest = every(config["num_hidden_layers"], config["full_attention_interval"])
    heads, size = config["linear_num_value_heads"], config["linear_value_head_dim"]
    channels = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"] + heads * size
    kernel = config["linear_conv_kernel_dim"]
    layers = (
        attention(full, kv=config["num_key_value_heads"], dim=config["head_dim"]),
        recurrent(rest, conv=(kernel - 1, channels), ssm=(heads, size, config["linear_key_head_dim"])),
    )
    model = inspection(layers, hidden=64, inner=64, vocab=64, heads=24)
    estimated = llama(model, case["input"]["ctx"] // 4, num_sequences=case["input"]["sequences"])
    terms = {term.name: term.bytes for term in estimated.devices[0].terms}
    assert len(full) == expected["attention_layers"]
    assert terms["kv_cache"] == expected["kv_bytes"]
    assert terms["state"] == expected["recurrent_bytes_4_sequences"]
    assert estimated.kv.state_bytes_per_sequence == expected["recurrent_bytes_per_sequence"]


def test_c63_more_ranks_than_heads(case: dict[str, Any]) -> None:
    model, length = model_of(case["input"]["config"]), case["input"]["ctx"]
    for index, ranks in enumerate(case["input"]["tp"]):
        chosen = pool(model, length, tensor_parallel=ranks)
        each = chosen.request_blocks(length) * chosen.bytes_per_block(0)
        assert each == case["expected"]["kv_bytes_per_gpu"][index]
        assert each * ranks == case["expected"]["kv_bytes_all_gpus"][index]
    with pytest.raises(UsageError, match="64 attention heads"):
        pool(model, length, tensor_parallel=3)


def test_c65_a_draft_caches_as_much(case: dict[str, Any]) -> None:
    draft = model_of(case["input"]["draft"])
    target = inspection((attention(range(2), kv=8, dim=128),), hidden=64, inner=64, vocab=64, heads=8)
    expected = case["expected"]
    for length, slots, size in (
        (case["input"]["ctx_total"], 1, expected["draft_kv_bytes"]),
        (case["input"]["variant"]["c"] // 4, 4, expected["variant"]["builds_sized_by_total"]),
    ):
        request = PlanRequest(length, "llama-server", num_sequences=slots)
        estimated = llama_server.memory_model(
            PlanningCase(shape_of(target, draft=draft), request, CPU)
        ).estimate_memory(length, slots)
        term = next(term for term in estimated.devices[0].terms if term.name == "draft_model")
        assert term.logical_bytes == size


def test_c68_utilisation_of_the_whole_device(case: dict[str, Any]) -> None:
    for name in "ABC":
        given, expected = case["input"][name], case["expected"][name]
        total, free = (int(given[key] * 2**30) for key in ("total_gib", "free_gib"))
        asked = vllm_settings.requested_bytes(total, given["utilization"] or default_utilization(None))
        assert asked / 2**30 == pytest.approx(expected["requested_gib"], abs=0.002)
        assert (asked <= free) is expected["start"]
        if "max_utilization_2_decimals" in expected:
            assert free * 100 // total / 100 == expected["max_utilization_2_decimals"]
