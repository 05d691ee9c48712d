"""Compute buffers on CUDA: public logs by build, and the engine itself with a made device of CUDA's rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.planner.engines.test_llama_placement import read, replicas
from tests.planner.models import smollm2

from ropewalk.planner.engines import llama_attention, llama_builds, llama_server
from ropewalk.planner.engines.llama_compute import graph_of
from ropewalk.planner.engines.llama_cuda import mtp_buffer
from ropewalk.planner.engines.llama_memory import CACHE_TYPES
from ropewalk.planner.engines.llama_slots import resolve_slots
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import MemoryTerm, PlanRequest
from ropewalk.units import MIB

__all__ = ["replicas"]
GPU = Machine(kind="gpu")
Q8: dict[str, Any] = {"cache_type_k": "q8_0", "cache_type_v": "q8_0"}
POOL: dict[str, Any] = {"num_sequences": 4, "kv_unified": True}


def buffers(path: Path, context_len: int, build: str | None, **options: Any) -> tuple[MemoryTerm, MemoryTerm]:
    """Of the first device and of the host."""
    model = read(path)
    request = PlanRequest(context_len, "llama-server", device="cuda", engine_version=build, **options)
    shape = shape_of(model, mtp=request.mtp)
    estimated = llama_server.memory_model(PlanningCase(shape, request, GPU)).estimate_memory(
        context_len, request.num_sequences
    )
    found = [
        next(term for term in device.terms if term.name == "compute_buffer") for device in estimated.devices
    ]
    return found[0], found[-1]


def holds(term: MemoryTerm, printed: float) -> bool:
    return term.low_bytes / MIB - 0.011 <= printed <= term.high_bytes / MIB + 0.011


# ground_truth/published.json and published2.json: the row's ids, file, tokens of each slot, build of its day,
# MiB of the device and of the host.
LOGS: list[tuple[str, str, int, str, dict[str, Any], float, float | None]] = [
    ("gt904 gt905", "Qwen3.6-27B-Q4.gguf", 200192, "9174", Q8, 654.78, 411.29),
    ("gt910 gt911", "Qwen3.6-27B-MTP-Q4.gguf", 32768, "9174", {**Q8, **POOL}, 495.0, 276.29),
    ("gt340", "Qwen3.5-9B-Q4_K_M.gguf", 262144, "9174", Q8, 808.02, None),
    ("gt920 gt921", "Qwen3-4B-Q4_K_M.gguf", 2048, "11434", POOL, 85.01, 28.02),
    ("gt925 gt926", "Llama-3.2-3B-Q4_K_M.gguf", 2048, "9263", {}, 284.9, 16.26),
    ("gt929", "gemma-4-12B-it-qat-UD-Q4_K_XL.gguf", 2048, "10621", {**Q8, **POOL}, 134.56, None),
    ("gt955", "Qwen3.6-35B-A3B-Q4_K.gguf", 32768, "9263", {}, 493.0, None),
    ("gt357", "Qwen3-32B-Q4_K_M.gguf", 8192, "6000", {"gpu_layers": 40}, 916.08, None),
    (  # ggml-org/llama.cpp#23861, comment of 2026-05-30: an RTX 3080, before and with that change
        "baseline", "Qwen3.6-35B-A3B-Q4_K.gguf", 150000, "9263",
        {**Q8, "cpu_moe": True, "batch": 4096, "ubatch": 4096}, 3976.0, 2408.0,
    ),
    (
        "#23861", "Qwen3.6-35B-A3B-Q4_K.gguf", 150000, "9500",
        {**Q8, "cpu_moe": True, "batch": 4096, "ubatch": 4096}, 3892.0, 2408.0,
    ),
    (
        "gt959 gt960", "Mistral-7B-Instruct-v0.2.Q4_K_S.gguf", 32768, "4500",
        {"batch": 512, "flash_attn": "off"}, 2144.0, 72.01,
    ),
    (
        "gt962 gt963", "Mistral-7B-Instruct-v0.2.Q4_K_S.gguf", 2048, "4500",
        {"batch": 512, "flash_attn": "off"}, 164.0, 12.01,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("row", "name", "context_len", "build", "options", "device", "host"), LOGS)
def test_public_logs_by_build(
    replicas: Path,
    row: str,
    name: str,
    context_len: int,
    build: str,
    options: dict[str, Any],
    device: float,
    host: float | None,
) -> None:
    on_device, on_host = buffers(replicas / name, context_len, build, **options)
    assert holds(on_device, device), row
    assert host is None or holds(on_host, host), row


# b11549 with a made device that takes what CUDA takes and reserves what CUDA reserves: MiB of both.
ENGINE: list[tuple[str, int, dict[str, Any], float, float]] = [
    ("Qwen3-4B-Q4_K_M.gguf", 8192, {}, 85.01, 28.02),
    ("Qwen3-4B-Q4_K_M.gguf", 16384, {}, 93.01, 36.02),
    ("Qwen3-4B-Q4_K_M.gguf", 131072, Q8, 676.09, 148.1),
    ("Qwen3-4B-Q4_K_M.gguf", 8192, {"ubatch": 128}, 21.25, 7.0),
    ("Qwen3-4B-Q4_K_M.gguf", 8192, {"gpu_layers": 20}, 98.36, 28.02),
    ("Qwen3-32B-Q4_K_M.gguf", 131072, Q8, 712.09, 168.1),
    ("Llama-3.2-3B-Q4_K_M.gguf", 131072, Q8, 670.09, 152.1),
    ("Qwen2.5-7B-Instruct-Q4_K_M.gguf", 131072, Q8, 419.09, 156.1),
    ("Qwen3.6-27B-Q4.gguf", 8192, {}, 150.02, 48.02),
    ("Qwen3.6-27B-Q4.gguf", 200192, Q8, 1077.79, 235.79),
    ("Qwen3.5-9B-Q4_K_M.gguf", 262144, Q8, 1344.29, 288.29),
    ("Qwen3.6-35B-A3B-Q4_K.gguf", 32768, {}, 104.02, 48.02),
    ("Qwen3.6-35B-A3B-Q4_K.gguf", 32768, {"n_cpu_moe": 22}, 344.0, 48.02),
    ("Qwen3.6-35B-A3B-Q4_K.gguf", 32768, {"cpu_moe": True, "ubatch": 2048, "batch": 2048}, 512.02, 192.09),
    ("Qwen3-4B-Q4_K_M.gguf", 8192, {"gpus_per_node": 2}, 172.05, 82.07),
]


@pytest.mark.parametrize(("name", "context_len", "options", "device", "host"), ENGINE)
def test_the_engine_with_a_made_device(
    replicas: Path, name: str, context_len: int, options: dict[str, Any], device: float, host: float
) -> None:
    on_device, on_host = buffers(replicas / name, context_len, "11549", **options)
    assert holds(on_device, device)
    assert holds(on_host, host)


def test_a_dense_model_with_an_f16_cache_is_exact(replicas: Path) -> None:
    on_device, _ = buffers(replicas / "Qwen3-4B-Q4_K_M.gguf", 8192, "11549")
    assert on_device.low_bytes == on_device.high_bytes
    assert on_device.basis == "engine_rule"


# MiB of the MTP context: ggml-org/llama.cpp#25465 (2026-07-13), and a log of 2026-08 (552.06 with its cache).
@pytest.mark.parametrize(
    ("name", "n_ctx", "slots", "ubatch", "printed"),
    [
        ("Qwen3.6-27B-MTP-Q4.gguf", 262144, 1, 1024, 648.03),
        ("Qwen3.8-27B-Q8_0_MTP.gguf", 8192, 4, 2048, 520.06),
    ],
)
def test_the_buffer_of_an_mtp_block(
    replicas: Path, name: str, n_ctx: int, slots: int, ubatch: int, printed: float
) -> None:
    f16 = CACHE_TYPES["f16"]
    graph = graph_of(shape_of(read(replicas / name)), f16, f16)
    sizes = resolve_slots(n_ctx, num_slots=slots, unified=True, ubatch=ubatch)
    found = mtp_buffer(graph, sizes, flash=True, on_host=False)
    assert found.bytes / MIB == pytest.approx(printed, abs=0.02)


def test_a_card_that_served_is_not_refused(replicas: Path) -> None:
    """8 GB laptop card, 7,745 MiB usable: 7,008 MiB were held at 8,192 tokens, 7,084 at 16,384."""
    model = read(replicas / "gemma-4-12B-it-qat-UD-Q4_K_XL.gguf")
    for context_len, held in ((8192, 7008), (16384, 7084)):
        request = PlanRequest(context_len, "llama-server", device="cuda", memory_bytes=7745 * MIB, **Q8)
        found = make_plan(model, request, machine=GPU)
        assert found.fit.fits is True
        share = found.memory.per_device[0]
        low = sum(term.low_bytes for term in share.terms or ())
        assert low / MIB <= held <= (share.high_bytes or 0) / MIB


@pytest.mark.parametrize(
    ("key", "value", "build", "reason"),
    [
        ("f16", "f16", "9174", None),
        ("q8_0", "q8_0", "9174", None),
        ("q5_1", "q5_1", "10791", "no kernel for a cache of q5_1"),
        ("f16", "q4_0", "10791", "no kernel for keys in f16 beside values in q4_0"),
        ("f16", "q4_0", "11434", None),
        ("q5_1", "q5_1", None, None),
        ("iq4_nl", "iq4_nl", None, "no kernel for a cache of iq4_nl"),
    ],
)
def test_which_pairs_cuda_has_a_kernel_for(
    key: str, value: str, build: str | None, reason: str | None
) -> None:
    shape = shape_of(smollm2())
    assert llama_attention.missing_kernel(shape, CACHE_TYPES[key], CACHE_TYPES[value], build) == reason


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({**Q8, "cache_type_v": "q5_1"}, "attention_on_cpu"),
        ({"cache_type_k": "q5_1", "flash_attn": "auto"}, "flash_attention_off"),
        ({"cache_type_k": "q5_1", "flash_attn": "off"}, None),
        (Q8, None),
    ],
)
def test_what_a_missing_kernel_does(options: dict[str, Any], code: str | None) -> None:
    request = PlanRequest(8192, "llama-server", device="cuda", engine_version="10791", **options)
    codes = {finding.code for finding in make_plan(smollm2(), request, machine=GPU).findings}
    assert codes & {"attention_on_cpu", "flash_attention_off"} == ({code} if code else set())


@pytest.mark.parametrize(
    ("context_len", "kinds", "slow"),
    [
        (8192, ("q8_0", "q8_0"), True),
        (8192, ("bf16", "bf16"), True),
        (8192, ("f16", "q8_0"), True),
        (8192, ("f32", "f32"), False),
        (2048, ("q8_0", "q8_0"), False),
    ],
)
def test_caches_that_are_slow_on_a_processor(context_len: int, kinds: tuple[str, str], slow: bool) -> None:
    request = PlanRequest(context_len, "llama-server", cache_type_k=kinds[0], cache_type_v=kinds[1])
    codes = {finding.code for finding in make_plan(smollm2(), request, machine=Machine(kind="cpu")).findings}
    assert ("cache_type_slow" in codes) is slow


@pytest.mark.parametrize(
    ("version", "number"), [("b11434", 11434), ("2026.10.11549", 11549), ("0.3.36", None), (None, None)]
)
def test_builds_by_their_number(version: str | None, number: int | None) -> None:
    assert llama_builds.build_number(version) == number
