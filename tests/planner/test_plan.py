"""Whole plans: verdicts, findings, what is refused, and that every byte has a term."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest
from tests.inspector.made import made
from tests.planner.models import (
    attention,
    deepseek_v3,
    gemma3_27b,
    inspection,
    qwen3_8b,
    qwen3_next_80b,
    smollm2,
)

from ropewalk import jsonio
from ropewalk.engines import EngineName
from ropewalk.errors import CheckpointError, UsageError
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.inspector.records import Inspection
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.units import GIB, MIB

ENGINES: list[EngineName] = ["vllm", "llama-server", "transformers"]


def plan(model: Inspection, context_len: int, engine: EngineName = "llama-server", **options: Any) -> Plan:
    return make_plan(model, PlanRequest(context_len, engine, **options), machine=Machine(kind="cpu"))


def test_the_demo() -> None:
    """SmolLM2, 12,288 tokens in one slot: 270.0 MiB of cache, 26.6 MiB of compute buffer (measured)."""
    found = plan(smollm2(), 12_288)
    sizes = {term.name: round(term.bytes / MIB, 1) for term in found.memory.terms}
    assert (sizes["kv_cache"], sizes["compute_buffer"]) == (270.0, 26.6)
    assert list(sizes) == ["weights", "kv_cache", "output_buffer", "compute_buffer", "process_overhead"]
    assert found.fit.fits is None
    assert found.fit.table == ()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", [qwen3_8b(), gemma3_27b(), deepseek_v3(indexer=128), qwen3_next_80b()])
def test_a_plan_is_a_record(model: Inspection, engine: EngineName) -> None:
    found = plan(model, 32_768, engine, memory_bytes=2000 * GIB)
    assert jsonio.loads(Plan, jsonio.dumps(found)) == found
    assert found.memory.total_bytes == sum(term.bytes for term in found.memory.terms)
    assert found.fit.fits is True


def test_a_budget_that_is_enough() -> None:
    found = plan(qwen3_8b(), 32_768, memory_bytes=24 * GIB)
    assert found.fit.fits is True
    assert found.memory.per_device[0].fits is True
    longest = {row.cache_type: row.max_context_len for row in found.fit.table}
    assert found.fit.max_context_len == longest["f16"] == 61_696
    assert (longest["f16"] or 0) < (longest["q8_0"] or 0) < (longest["q5_1"] or 0) < (longest["q4_0"] or 0)


def test_a_budget_that_is_not() -> None:
    found = plan(qwen3_8b(), 131_072, memory_bytes=24 * GIB, allow_unvalidated=True)
    assert found.fit.fits is False
    (told,) = [one for one in found.findings if one.code == "does_not_fit"]
    assert told.severity == "error"
    assert told.where["usable_bytes"] == 24 * GIB < told.where["needed_bytes"]
    assert told.where["device"] == "cpu"
    assert found.fit.max_context_len is not None


def test_the_verdict_is_on_the_upper_end() -> None:
    """Between the middle and the upper end of the estimate a plan does not fit."""
    free = plan(smollm2(), 8192).memory
    between = (free.total_bytes + free.high_bytes) // 2
    assert plan(smollm2(), 8192, memory_bytes=between).fit.fits is False
    assert plan(smollm2(), 8192, memory_bytes=free.high_bytes).fit.fits is True
    assert plan(smollm2(), 8192, memory_bytes=free.high_bytes - 1).fit.fits is False


def test_nothing_fits_at_all() -> None:
    found = plan(qwen3_8b(), 4096, memory_bytes=GIB).fit
    assert (found.max_context_len, found.max_sequences) == (None, None)


def test_the_budget_is_per_device() -> None:
    """Two GPUs of 14 GiB hold what one of 14 GiB does not."""
    machine = Machine(kind="gpu")
    one = make_plan(qwen3_8b(), PlanRequest(8192, "vllm", memory_bytes=14 * GIB), machine=machine)
    request = PlanRequest(8192, "vllm", memory_bytes=14 * GIB, tensor_parallel=2)
    two = make_plan(qwen3_8b(), request, machine=machine)
    assert (one.fit.fits, two.fit.fits) == (False, True)
    assert [share.device for share in two.memory.per_device] == ["gpu:0", "gpu:1"]
    assert two.fit.usable_bytes == ceil(14 * GIB * 0.92)


def test_the_host_beside_gpus_is_not_judged() -> None:
    request = PlanRequest(8192, "llama-server", memory_bytes=24 * GIB, device="cuda:0")
    gpu, host = make_plan(qwen3_8b(), request).memory.per_device
    assert (gpu.fits, host.fits) == (True, None)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_bare_config_is_an_estimate(engine: EngineName) -> None:
    """Without tensors the weights follow from the dimensions: Qwen3-8B to the norms."""
    bare = inspection(
        (attention(range(36), kv=8, dim=128, heads=32),),
        hidden=4096,
        inner=12_288,
        vocab=151_936,
        heads=32,
        tie_word_embeddings=False,
        format="config",
    )
    term = plan(bare, 8192, engine).memory.term("weights")
    assert term is not None
    assert term.basis == "estimate"
    assert term.bytes == pytest.approx(16_381_470_720, rel=0.0001)


def test_a_missing_dimension_is_named() -> None:
    with pytest.raises(CheckpointError, match="hidden_size") as raised:
        plan(inspection((), hidden=0, inner=1, vocab=1, heads=1), 4096)
    assert raised.value.where["field"] == "hidden_size"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"context_len": -1}, "context_len"),
        ({"num_sequences": 0}, "num_sequences"),
        ({"tensor_parallel": -1}, "tensor_parallel"),
        ({"memory_bytes": 0}, "memory_bytes"),
        ({"ubatch": -512, "engine": "llama-server"}, "ubatch"),
        ({"cache_ram_bytes": -1, "engine": "llama-server"}, "cache_ram_bytes"),
        ({"context_len": 2**63}, "context_len"),
        ({"tensor_parallel": 64, "pipeline_parallel": 64}, "pipeline_parallel"),
        ({"engine": "tgi"}, "engine"),
    ],
)
def test_requests_that_make_no_sense(options: dict[str, Any], field: str) -> None:
    request = PlanRequest(**{"context_len": 4096, "engine": "vllm", **options})
    with pytest.raises(UsageError) as raised:
        make_plan(smollm2(), request)
    assert raised.value.where["field"] == field


def test_rope_and_memory_in_one_record() -> None:
    """Without a rope rule nothing is scaled; the limit is lifted and the finding says what that means."""
    found = plan(smollm2(), 16_384)
    assert (found.rope.decision, found.native_context, found.override_context_len) == ("none", 8192, 16_384)
    assert "context_over_trained" in [one.code for one in found.findings]


def test_findings_come_worst_first() -> None:
    found = plan(qwen3_8b(), 65_536, cache_type_v="q8_0", flash_attn="off", memory_bytes=GIB)
    severities = [one.severity for one in found.findings]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    codes = {one.code for one in found.findings}
    assert {"cache_type_needs_flash_attention", "does_not_fit"} <= codes


def test_a_cache_of_unknown_heads_is_not_priced_as_nothing() -> None:
    specs = {
        f"model.layers.{layer}.self_attn.{name}_proj.weight": ("BF16", (rows, 256))
        for layer in (0, 1)
        for name, rows in (("q", 256), ("k", 64), ("v", 64), ("o", 256))
    }
    specs |= {f"model.{name}.weight": ("BF16", (64, 256)) for name in ("embed_tokens", "lm_head")}
    inspection = inspect_checkpoint(made(specs=specs))
    with pytest.raises(CheckpointError, match="does not tell num_key_value_heads of 2 layers") as caught:
        shape_of(inspection)
    assert caught.value.code == "config_missing"
