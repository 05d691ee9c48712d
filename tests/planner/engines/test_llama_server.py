"""Plans for llama-server against what real servers printed (b11434) and published logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.planner.ground_truth import option, rows
from tests.planner.models import (
    attention,
    deepseek_v3,
    every,
    gemma3_27b,
    gemma3_270m,
    gpt_oss_20b,
    inspection,
    qwen3_8b,
    recurrent,
    smollm2,
)

from ropewalk.errors import UsageError
from ropewalk.inspector.layer_kinds import LatentAttention, SharedCache
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines.llama_memory import CACHE_TYPES, LlamaMemoryModel
from ropewalk.planner.engines.llama_server import findings, memory_model
from ropewalk.planner.engines.llama_slots import resolve_slots
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import Memory, PlanRequest
from ropewalk.planner.terms import memory_of
from ropewalk.units import GIB, MIB

CPU = Machine(kind="cpu")


def memory(model: Inspection, context_len: int, **options: Any) -> Memory:
    request = PlanRequest(context_len, "llama-server", **options)
    chosen = memory_model(PlanningCase(shape_of(model), request, CPU))
    return memory_of(chosen.estimate_memory(context_len, request.num_sequences))


def size(memory: Memory, name: str) -> int:
    term = memory.term(name)
    return 0 if term is None else term.bytes


@pytest.mark.parametrize(
    ("options", "kv", "output"),
    [
        ({}, 188_743_680, 196_608),
        ({"num_sequences": 4, "kv_unified": True, "context_len": 2048}, 188_743_680, 786_432),
        ({"num_sequences": 4, "context_len": 2048}, 188_743_680, 786_432),
        ({"cache_type_k": "q8_0", "cache_type_v": "q8_0"}, 100_270_080, 196_608),
        ({"cache_type_k": "q4_0", "cache_type_v": "q4_0"}, 53_084_160, 196_608),
        ({"cache_type_k": "q8_0"}, 144_506_880, 196_608),
        ({"cache_type_k": "f32", "cache_type_v": "f32"}, 377_487_360, 196_608),
        ({"context_len": 1000}, 23_592_960, 196_608),
    ],
)
def test_smollm2_as_printed(options: dict[str, Any], kv: int, output: int) -> None:
    found = memory(smollm2(), **{"context_len": 8192, **options})
    assert (size(found, "kv_cache"), size(found, "output_buffer")) == (kv, output)
    assert found.kv.reserved_bytes == kv


@pytest.mark.parametrize(
    ("options", "kv"),
    [
        ({}, 25_165_824 + 15_728_640),
        ({"num_sequences": 4, "context_len": 2048}, 25_165_824 + 62_914_560),
        ({"num_sequences": 4, "context_len": 2048, "kv_unified": True}, 25_165_824 + 39_321_600),
        ({"swa_full": True}, 25_165_824 + 125_829_120),
        ({"ubatch": 128}, 25_165_824 + 11_796_480),
        ({"ubatch": 2048}, 25_165_824 + 39_321_600),
        ({"cache_type_k": "q8_0", "cache_type_v": "q8_0"}, 13_369_344 + 8_355_840),
    ],
)
def test_gemma3_as_printed(options: dict[str, Any], kv: int) -> None:
    assert size(memory(gemma3_270m(), **{"context_len": 8192, **options}), "kv_cache") == kv


@pytest.mark.parametrize(
    ("options", "kv"),
    [
        ({}, 11_391_729_664),
        ({"num_sequences": 4, "context_len": 32_768, "kv_unified": True}, 12_700_352_512),
        ({"swa_full": True}, 66_571_993_088),
        ({"num_sequences": 4, "context_len": 32_768}, 13_354_663_936),
    ],
)
def test_windows_depend_on_ubatch_and_slots(options: dict[str, Any], kv: int) -> None:
    """Gemma-3-27B at 131,072 (LostRuins/koboldcpp#2235, ggml-org/llama.cpp#14123)."""
    assert size(memory(gemma3_27b(), **{"context_len": 131_072, **options}), "kv_cache") == kv


def test_gpt_oss_of_a_published_log() -> None:
    """3072 MiB for 12 full layers and 54 MiB for 12 windows at ubatch 2048 (Apple M5)."""
    assert size(memory(gpt_oss_20b(), 131_072, ubatch=2048), "kv_cache") == (3072 + 54) * MIB


def test_two_figures_for_a_cache() -> None:
    found = memory(gemma3_270m(), 1000)
    term = found.term("kv_cache")
    assert term is not None
    per_layer = 2 * 256 * 2
    assert term.logical_bytes == found.kv.logical_bytes == per_layer * (3 * 1000 + 15 * 512)
    assert term.bytes == per_layer * (3 + 15) * 1024
    assert found.kv.bytes_per_token == per_layer * 18


def test_states_are_f32_for_every_slot() -> None:
    """Qwen3.8-27B class: 598.50 MiB for four sequences, 16384 MiB of attention (public logs)."""
    full, rest = every(64, 4)
    layers = (
        attention(full, kv=4, dim=256, heads=24),
        recurrent(rest, conv=(3, 10_240), ssm=(48, 128, 128)),
    )
    model = inspection(layers, hidden=5120, inner=17_408, vocab=248_320, heads=24, context=262_144)
    found = memory(model, 65_536, num_sequences=4)
    assert size(found, "state") == 627_572_736
    assert found.kv.state_bytes_per_sequence == 156_893_184
    assert size(found, "kv_cache") == 16 * GIB
    assert found.kv.reserved_bytes == 16 * GIB + 627_572_736


def test_latent_attention_keeps_one_row() -> None:
    """DeepSeek-V3 at 32,768 in q8_0: 1166.62 MiB (public log)."""
    found = memory(deepseek_v3(), 32_768, cache_type_k="q8_0", cache_type_v="q8_0")
    assert size(found, "kv_cache") == 1_223_294_976


def test_indexer_keys_have_a_term() -> None:
    """21 indexer layers of 128 at 524,288: 2688 MiB (public log of GLM-5.2)."""
    layers = (LatentAttention(tuple(range(21)), 64, 576, indexer_head_dim=128),)
    model = inspection(layers, hidden=6144, inner=12_288, vocab=64, heads=64, kv_lora_rank=512)
    assert size(memory(model, 524_288), "indexer_cache") == 2688 * MIB


def test_shared_layers_keep_nothing() -> None:
    """Gemma-3n: 20 of 35 layers own a cache (unslothai/unsloth#5225)."""
    full = [index for index in range(20) if index % 5 == 4]
    sliding = [index for index in range(20) if index % 5 != 4]
    layers = (
        attention(full, kv=2, dim=256),
        attention(sliding, kv=2, dim=256, window=512),
        SharedCache(tuple(range(20, 35)), 8, 2, 256, 256),
    )
    model = inspection(layers, hidden=2048, inner=16_384, vocab=262_400, heads=8)
    assert size(memory(model, 32_768), "kv_cache") == 301_989_888


def test_weights_are_the_tensors() -> None:
    found = memory(smollm2(), 8192)
    assert size(found, "weights") == 269_030_016
    term = found.term("weights")
    assert term is not None
    assert term.basis == "exact"


def test_process_overhead_covers_what_was_measured() -> None:
    """Resident beside the buffers after 7,900 tokens: 39 and 67 MiB with flash attention, 96 without."""
    for model, on, off in ((smollm2(), 39, 96), (gemma3_270m(), 67, 96)):
        for flash, seen in (("on", on), ("off", off)):
            term = memory(model, 8192, flash_attn=flash).term("process_overhead")
            assert term is not None
            assert term.low_bytes <= seen * MIB <= term.high_bytes
    embedded = memory(smollm2(), 8192).term("process_overhead")
    assert embedded is not None
    assert embedded.low_bytes <= 57 * MIB <= embedded.high_bytes


def test_host_caches_only_when_asked_for() -> None:
    plain = memory(gemma3_270m(), 8192)
    assert plain.term("prompt_cache") is None
    assert plain.term("context_checkpoints") is None
    asked = memory(gemma3_270m(), 8192, cache_ram_bytes=8 * GIB, context_checkpoints=32)
    assert size(asked, "prompt_cache") == 8 * GIB
    assert size(asked, "context_checkpoints") == 32 * 15_728_640
    checkpoints = asked.term("context_checkpoints")
    assert checkpoints is not None
    assert checkpoints.low_bytes == 0


def test_a_draft_brings_a_second_cache() -> None:
    """28 layers, 8 x 128, at 131,072 tokens: 14 GiB beside its weights (Anbeeld/beellama.cpp#97)."""
    draft = inspection((attention(range(28), kv=8, dim=128),), hidden=1024, inner=3072, vocab=64, heads=16)
    request = PlanRequest(131_072, "llama-server")
    chosen = memory_model(PlanningCase(shape_of(qwen3_8b(), draft=draft), request, CPU))
    term = memory_of(chosen.estimate_memory(131_072, 1)).term("draft_model")
    assert term is not None
    assert term.logical_bytes == 15_032_385_536


def test_a_draft_brings_buffers_of_its_own() -> None:
    """SmolLM2-135M Q4_1 drafts for itself (b11434, -c 4096, -np 1, --spec-type draft-simple): model 92.10,
    KV 90.00, output 0.19, compute 18.6426 MiB."""
    chosen = memory_model(
        PlanningCase(shape_of(smollm2(), draft=smollm2()), PlanRequest(4096, "llama-server"), CPU)
    )
    memory = memory_of(chosen.estimate_memory(4096, 1))
    term, compute = memory.term("draft_model"), memory.term("compute_buffer")
    assert term is not None
    assert compute is not None
    weights = smollm2().checkpoint.tensor_bytes
    assert term.bytes == weights + 90 * MIB + 49_152 * 4 + compute.bytes
    assert compute.bytes / MIB == pytest.approx(18.6426, abs=0.0003)
    assert (term.low_bytes, term.high_bytes, term.basis) == (term.bytes, term.bytes, "engine_rule")


def test_mtp_layers_keep_a_cache() -> None:
    """One MTP layer of 4 x 256 at 262,144 tokens: 1024 MiB (public log)."""
    model = inspection(
        (attention(range(16), kv=4, dim=256, heads=24),),
        hidden=5120,
        inner=17_408,
        vocab=64,
        heads=24,
        mtp_layers=1,
    )
    request = PlanRequest(262_144, "llama-server", mtp=1)
    chosen = memory_model(PlanningCase(shape_of(model, mtp=1), request, CPU))
    term = memory_of(chosen.estimate_memory(262_144, 1)).term("draft_model")
    assert term is not None
    assert term.logical_bytes == 1024 * MIB < term.low_bytes
    assert term.basis == "estimate"


def on_gpus(model: Inspection, context_len: int, **options: Any) -> Memory:
    request = PlanRequest(context_len, "llama-server", device="cuda:0", **options)
    chosen: LlamaMemoryModel = memory_model(PlanningCase(shape_of(model), request, Machine()))
    return memory_of(chosen.estimate_memory(context_len, 1))


def test_one_gpu_takes_all_but_the_embedding() -> None:
    found = on_gpus(smollm2(), 8192)
    gpu, host = found.per_device
    embedding = 2 * 49_152 * 576
    assert (gpu.device, gpu.layers, host.device, host.layers) == ("gpu:0", (0, 30), "cpu", (0, 0))
    assert gpu.weights_bytes == 269_030_016  # a tied head is copied to the GPU
    assert host.weights_bytes == embedding
    assert (gpu.kv_bytes, host.kv_bytes) == (188_743_680, 0)


def test_layers_are_split_as_measured() -> None:
    """Two RPC devices, -ts 1,1: 48 and 42 MiB; -ngl 15: 48 MiB on the host, 42 on the device."""
    two = on_gpus(smollm2(), 4096, pipeline_parallel=2).per_device
    assert [share.kv_bytes // MIB for share in two] == [48, 42, 0]
    assert [share.layers for share in two] == [(0, 16), (16, 30), (0, 0)]
    half = on_gpus(smollm2(), 4096, gpu_layers=15).per_device
    assert [(share.device, share.kv_bytes // MIB) for share in half] == [("gpu:0", 42), ("cpu", 48)]


def test_buffers_of_a_gpu_are_a_range() -> None:
    """43.05 and 32.91 MiB were measured where the CPU's is 18.64 MiB."""
    term = on_gpus(smollm2(), 4096, pipeline_parallel=2).term("compute_buffer")
    assert term is not None
    assert term.basis == "estimate"
    assert term.low_bytes <= (43.05 + 32.91 + 27.32) * MIB <= term.high_bytes


@pytest.mark.parametrize(
    ("model", "options", "code"),
    [
        (qwen3_8b(), {"cache_type_v": "q8_0", "flash_attn": "off"}, "cache_type_needs_flash_attention"),
        # b11549: "model does not support different K (q8_0) and V (f16) cache types", f16 being the default
        (deepseek_v3(), {"cache_type_k": "q8_0"}, "cache_types_must_match"),
        (
            deepseek_v3(),
            {"cache_type_k": "q8_0", "cache_type_v": "q8_0", "flash_attn": "off"},
            "cache_type_needs_flash_attention",
        ),
        (
            inspection((attention(range(2), kv=8, dim=80),), hidden=64, inner=64, vocab=64, heads=8),
            {"cache_type_k": "q8_0", "cache_type_v": "q8_0"},
            "cache_type_misaligned",
        ),
    ],
)
def test_refused_cache_types(model: Inspection, options: dict[str, Any], code: str) -> None:
    request = PlanRequest(8192, "llama-server", **options)
    found = [one for one in findings(PlanningCase(shape_of(model), request, CPU)) if one.severity == "error"]
    assert next(one.code for one in found) == code


@pytest.mark.parametrize(
    "options",
    [{"cache_type_k": "q8_0", "flash_attn": "off"}, {"cache_type_v": "q8_0"}, {"cache_type_k": "bf16"}],
)
def test_allowed_cache_types(options: dict[str, Any]) -> None:
    request = PlanRequest(8192, "llama-server", **options)
    found = findings(PlanningCase(shape_of(qwen3_8b()), request, CPU))
    assert not [one for one in found if one.severity == "error"]


def test_an_unknown_cache_type_names_the_known() -> None:
    with pytest.raises(UsageError, match="q8_0") as raised:
        memory(smollm2(), 8192, cache_type_k="q9_9")
    assert raised.value.where["allowed"] == list(CACHE_TYPES)


def test_a_shared_pool_and_a_foreign_format_are_told() -> None:
    request = PlanRequest(8192, "llama-server", num_sequences=4, kv_unified=True)
    codes = [one.code for one in findings(PlanningCase(shape_of(qwen3_8b()), request, CPU))]
    assert codes == ["pool_shared", "needs_conversion"]
    gguf = replace(shape_of(qwen3_8b()), stored_as="gguf")
    assert not findings(PlanningCase(gguf, replace(request, num_sequences=1), CPU))


def test_every_run_of_the_ground_truth(shared: Path) -> None:
    shapes = {"smollm2": shape_of(smollm2()), "gemma3": shape_of(gemma3_270m())}
    checked = 0
    for row in rows(shared, "llama_server.json"):
        if not row["started"]:
            continue
        command, shape = row["command"], shapes[row["model"]]
        auto = "-np" not in command.split()
        n_ctx = int(option(command, "-c", "0")) or {"smollm2": 8192, "gemma3": 32_768}[row["model"]]
        slots = resolve_slots(
            n_ctx,
            num_slots=int(option(command, "-np", "4")),
            unified=auto or "-kvu" in command,
            batch=int(option(command, "-b", "0")) or None,
            ubatch=int(option(command, "-ub", "0")) or None,
            swa_full="--swa-full" in command,
        )
        request = PlanRequest(
            1,
            "llama-server",
            cache_type_k=option(command, "-ctk", "auto"),
            cache_type_v=option(command, "-ctv", "auto"),
            flash_attn="off" if option(command, "-fa", "auto") == "off" else "auto",
        )
        (host,) = memory_model(PlanningCase(shape, request, CPU)).devices(slots)
        terms = {term.name: term for term in host.terms}
        printed = row["bytes"]
        rounding = len(row["kv_lines"]) * 0.005 * MIB
        assert terms["kv_cache"].bytes == pytest.approx(sum(printed["kv"]), abs=rounding), row["tag"]
        assert terms["output_buffer"].bytes == printed["output"], row["tag"]
        assert [slots.layer_cells(group) for group in shape.layers] == printed["kv_cells"], row["tag"]
        compute = terms["compute_buffer"]
        if printed["compute"] is not None:
            assert compute.low_bytes - 256 <= printed["compute"] <= compute.high_bytes + 256, row["tag"]
        checked += 1
    assert checked == 93
