"""Plans against 244 published figures: exact where the source printed what was allocated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.planner.ground_truth import rows
from tests.planner.models import attention, inspection, latent, recurrent

from ropewalk.inspector.layer_kinds import AnyLayer
from ropewalk.planner.engines import llama_memory, llama_server, vllm
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.engines.vllm_capacity import (
    capacity,
    estimated_max_len,
    needed_bytes,
    start_refusal,
)
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import PlanRequest
from ropewalk.planner.terms import cache_bytes
from ropewalk.units import GIB, MIB

GPU = Machine(kind="gpu")
ROUNDING = 0.005


def figures(shared: Path, *, engine: str, quantity: str) -> list[dict[str, Any]]:
    return [
        row
        for row in rows(shared, "published.json")
        if row["engine"].startswith(engine) and quantity in row["quantity"] and row["arch"]
    ]


def layers_of(arch: dict[str, Any]) -> tuple[AnyLayer, ...]:
    if "mla_latent" in arch:
        count = arch.get("layers_kv", 36)
        return (latent(count, width=arch["mla_latent"] + arch["rope_dim"]),)
    return (
        attention(
            range(arch["layers_kv"]),
            kv=arch["kv_heads"],
            dim=arch["head_dim_k"],
            value_dim=arch["head_dim_v"],
        ),
    )


def test_caches_of_llama_cpp(shared: Path) -> None:
    """Every line with confidence high, equal to the printed 0.01 MiB."""
    checked = 0
    for quantity in ("KV cache size", "SWA KV", "indexer KV", "MTP draft KV", "context (KV)"):
        for row in figures(shared, engine="llama.cpp", quantity=quantity):
            arch, length = row["arch"], row["context"]
            if row["confidence"] != "high" or "layers_kv" not in arch:
                continue
            model = inspection(layers_of(arch), hidden=1024, inner=1024, vocab=64, heads=arch["kv_heads"])
            request = PlanRequest(
                length, "llama-server", cache_type_k=row["kv_dtype"], cache_type_v=row["kv_dtype"]
            )
            estimated = llama_server.memory_model(
                PlanningCase(shape_of(model), request, Machine(kind="cpu"))
            ).estimate_memory(length, 1)
            planned = sum(term.bytes for term in estimated.devices[0].terms if term.name == "kv_cache")
            assert planned / MIB == pytest.approx(row["value"], abs=ROUNDING), row["id"]
            checked += 1
    assert checked >= 25


def test_states_of_llama_cpp(shared: Path) -> None:
    checked = 0
    for row in figures(shared, engine="llama.cpp", quantity="recurrent state"):
        arch = row["arch"]
        if "gdn_layers" not in arch:
            continue
        heads, size = arch["v_heads"], arch["dk"]
        channels = 2 * arch["k_heads"] * size + heads * arch["dv"]
        group = recurrent(
            range(arch["gdn_layers"]), conv=(arch["conv"] - 1, channels), ssm=(heads, arch["dv"], size)
        )
        planned = group.count * group.state_elements * llama_memory.STATE_BYTES
        assert planned / MIB == pytest.approx(row["value"], abs=ROUNDING), row["id"]
        checked += 1
    assert checked == 2


def priced_by_vllm(row: dict[str, Any], length: int) -> vllm.VllmMemoryModel:
    kind = "fp8" if str(row["kv_dtype"]).startswith("fp8") else "auto"
    heads = 8 * max(1, row["tp"])
    model = inspection(layers_of(row["arch"]), hidden=1024, inner=1024, vocab=64, heads=heads)
    request = PlanRequest(
        length, "vllm", cache_type_k=kind, cache_type_v=kind, tensor_parallel=row["tp"], device="cuda:0"
    )
    return vllm.memory_model(PlanningCase(shape_of(model), request, GPU))


def test_what_vllm_says_it_needs(shared: Path) -> None:
    """Models of one kind of layer: equal after rounding to 0.01 GiB."""
    checked = 0
    for row in figures(shared, engine="vllm", quantity="KV needed"):
        if "layers_kv" not in row["arch"] and "mla_latent" not in row["arch"]:
            continue
        needed = needed_bytes(priced_by_vllm(row, row["context"]), row["context"])
        assert round(needed / GIB, 2) == row["value"], row["id"]
        checked += 1
    assert checked == 5


def test_lengths_that_vllm_estimates(shared: Path) -> None:
    """Inside the interval that the printed GiB and the block size leave open, with or without the block
    that newer versions hold back."""
    checked = 0
    for row in figures(shared, engine="vllm", quantity="estimated maximum"):
        if "layers_kv" not in row["arch"]:
            continue
        available = float(row["quantity"].split(" with ")[1].split()[0])
        chosen = priced_by_vllm(row, row["context"])
        block = chosen.bytes_per_block(0)
        low = int((available - ROUNDING) * GIB)
        high = int((available + ROUNDING) * GIB) + block
        limit = row["context"]
        shortest = estimated_max_len(chosen, low, limit=limit) // 128 * 128
        longest = estimated_max_len(chosen, high, limit=limit)
        assert shortest <= row["value"] <= longest, row["id"]
        checked += 1
    assert checked == 6


def delta_net(*, version: str, cache: str, mtp: int = 0, context: int, prefixes: bool | None = None) -> Any:
    """Qwen3.5-27B: 16 attention layers of 4 x 256, 48 of 48 x 128 x 128 in float32, one MTP layer."""
    full = [index for index in range(64) if index % 4 == 3]
    rest = [index for index in range(64) if index % 4 != 3]
    state = {"conv": (3, 10_240), "ssm": (48, 128, 128)}
    model = inspection(
        (attention(full, kv=4, dim=256, heads=24), recurrent(rest, **state)),
        hidden=5120, inner=17_408, vocab=248_320, heads=24, mamba_ssm_dtype="float32",
        linear_key_head_dim=128, mtp_layers=1,
    )  # fmt: skip
    request = PlanRequest(
        context, "vllm", engine_version=version, cache_type_k=cache, cache_type_v=cache, mtp=mtp,
        prefix_caching=prefixes,
    )  # fmt: skip
    return vllm.memory_model(PlanningCase(shape_of(model, mtp=mtp), request, GPU))


def test_a_hybrid_without_prefix_caching_keeps_one_state() -> None:
    """vLLM 0.26 on an L40S: 8.18 GiB needed, 112,896 tokens of 7.04 GiB, 141,036 of 8.82 (a public log)."""
    chosen = delta_net(version="0.26.0", cache="auto", context=131_072)
    assert (chosen.block_size, chosen.request_blocks(131_072)) == (784, 168 + 3)
    assert round(needed_bytes(chosen, 131_072) / GIB, 2) == 8.18
    assert estimated_max_len(chosen, int(7.04 * GIB), limit=131_072) == 112_896
    for given, tokens in ((8.82, 141_036), (9.75, 155_600)):
        found = capacity(chosen, int(given * GIB), context_len=131_072, engine_version="0.26.0")
        assert found.tokens == tokens


def test_drafted_tokens_make_rows_and_states() -> None:
    """Three of MTP, fp8: blocks of 1,600, 164 + 3 x 5 of them in 17 layers, 9.29 GiB (vllm#46778)."""
    chosen = delta_net(version="0.29.0", cache="fp8", mtp=3, context=262_144)
    assert (chosen.block_size, chosen.request_blocks(262_144)) == (1600, 164 + 3 * 5)
    assert round(needed_bytes(chosen, 262_144) / GIB, 2) == 9.29


def test_more_sequences_than_blocks_are_refused() -> None:
    """config/compilation.py of 0.22: each decoding sequence needs a block for its state."""
    plain = delta_net(version="0.26.0", cache="auto", context=131_072)
    held = replace(plain.request, kv_cache_memory_bytes=9 * GIB, max_num_seqs=256)
    refusal = start_refusal(replace(plain, request=held), 131_072, 1)
    assert refusal is not None
    assert (refusal.reason, refusal.certain) == ("sequences", True)
    fewer = replace(held, max_num_seqs=188)
    assert start_refusal(replace(plain, request=fewer), 131_072, 1) is None
    eager = replace(held, enforce_eager=True)
    assert start_refusal(replace(plain, request=eager), 131_072, 1) is None
    small = replace(held, kv_cache_memory_bytes=7 * GIB, max_num_seqs=1)
    short = start_refusal(replace(plain, request=small), 131_072, 1)
    assert short is not None
    assert (short.reason, short.longest) == ("length", 112_112)


def test_caches_of_a_plan_are_what_is_reserved() -> None:
    """The helper that the figures above rest on sums all devices."""
    model = inspection((attention(range(2), kv=8, dim=128),), hidden=64, inner=64, vocab=64, heads=8)
    request = PlanRequest(4096, "vllm", tensor_parallel=2, device="cuda:0")
    estimated = vllm.memory_model(PlanningCase(shape_of(model), request, GPU)).estimate_memory(4096, 1)
    assert estimated.kv.reserved_bytes == cache_bytes(estimated.devices) == 2 * 257 * 16 * 2 * 4 * 512
