"""Plans for transformers against the memory that Qwen published for its models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.planner.ground_truth import rows
from tests.planner.models import attention, gemma3_270m, inspection, qwen3_8b, smollm2

from ropewalk.errors import UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.engines.transformers import memory_model, prefill_activations
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import Memory, PlanRequest
from ropewalk.planner.terms import memory_of
from ropewalk.units import GIB, MIB

# Qwen2.5: hidden size and inner width, from the published configs.
QWEN25 = {
    "0.5B": (896, 4864), "1.5B": (1536, 8960), "3B": (2048, 11_008), "7B": (3584, 18_944),
    "14B": (5120, 13_824), "32B": (5120, 27_648), "72B": (8192, 29_568),
}  # fmt: skip


def memory(model: Inspection, context_len: int, **options: Any) -> Memory:
    request = PlanRequest(context_len, "transformers", **options)
    chosen = memory_model(PlanningCase(shape_of(model), request, Machine()))
    return memory_of(chosen.estimate_memory(context_len, request.num_sequences))


def test_qwen3_8b_is_weights_and_cache() -> None:
    """20,267 MiB at 30,720 + 2,048 tokens (QwenLM/Qwen3, transformers 4.51.3): 33 to 48 MiB more."""
    found = memory(qwen3_8b(), 32_768)
    weights, cache, activations = (found.term(name) for name in ("weights", "kv_cache", "activations"))
    assert weights is not None
    assert cache is not None
    assert activations is not None
    assert cache.bytes == cache.logical_bytes == 4_831_838_208
    assert 33 * MIB <= 20_267 * MIB - weights.bytes - cache.bytes <= 48 * MIB
    assert activations.low_bytes == 33 * MIB
    assert activations.high_bytes == prefill_activations(shape_of(qwen3_8b()), 32_768)


def test_the_prompt_is_one_step() -> None:
    """Three inner widths and four hidden ones per token, at two bytes."""
    shape = shape_of(qwen3_8b())
    assert prefill_activations(shape, 30_720) == 30_720 * 2 * (3 * 12_288 + 4 * 4096)


def test_windows_are_capped() -> None:
    found = memory(gemma3_270m(), 32_768)
    assert found.kv.reserved_bytes == 1024 * (3 * 32_768 + 15 * 512)


def test_scores_exist_with_eager_attention_only() -> None:
    """32 heads at 32,768: 64 GiB a square in bf16; scores, f32 softmax and cast together 256 GiB."""
    assert memory(qwen3_8b(), 32_768).term("score_matrix") is None
    term = memory(qwen3_8b(), 32_768, flash_attn="off").term("score_matrix")
    assert term is not None
    assert (term.low_bytes, term.high_bytes) == (64 * GIB, 256 * GIB)


def test_eager_scores_in_f32() -> None:
    """32 x 32,768^2 x 4 = 137,438,953,472 bytes for one layer (huggingface/transformers#46168)."""
    model = inspection(
        (attention(range(32), kv=32, dim=128, heads=32),),
        hidden=4096,
        inner=11_008,
        vocab=32_000,
        heads=32,
        dtype="float32",
    )
    term = memory(model, 32_768, flash_attn="off").term("score_matrix")
    assert term is not None
    assert term.low_bytes == 137_438_953_472


def test_logits_of_the_last_position() -> None:
    term = memory(qwen3_8b(), 32_768, num_sequences=2).term("logits")
    assert term is not None
    assert term.bytes == 2 * 151_936 * 6


def test_split_over_devices() -> None:
    """Each device prefills the whole prompt; the cache is divided."""
    found = memory(qwen3_8b(), 32_768, pipeline_parallel=3)
    assert [share.layers for share in found.per_device] == [(0, 12), (12, 24), (24, 36)]
    assert {share.kv_bytes for share in found.per_device} == {4_831_838_208 // 3}
    activations = found.term("activations")
    assert activations is not None
    assert activations.high_bytes == 3 * prefill_activations(shape_of(qwen3_8b()), 32_768)


def test_an_assistant_model_is_a_second_one() -> None:
    request = PlanRequest(8192, "transformers")
    chosen = memory_model(PlanningCase(shape_of(qwen3_8b(), draft=smollm2()), request, Machine()))
    term = memory_of(chosen.estimate_memory(8192, 1)).term("draft_model")
    assert term is not None
    assert term.bytes == 269_030_016 + 8192 * 23_040


def test_a_dtype_it_does_not_cache_in() -> None:
    with pytest.raises(UsageError, match="bfloat16"):
        memory(smollm2(), 2048, cache_type_k="fp8", cache_type_v="fp8")
    with pytest.raises(UsageError, match="one dtype"):
        memory(smollm2(), 2048, cache_type_k="float16")


def test_every_published_total(shared: Path) -> None:
    """bf16 rows whose weights are known exactly: within 1 % or 0.2 GiB."""
    checked = 0
    for row in rows(shared, "published.json"):
        arch = row["arch"]
        published = row["engine"] == "transformers" and arch["weights_dtype"] == "BF16"
        if not published or "OUTLIER" in (row["note"] or ""):
            continue
        length = row["context"]
        prompt = length - 2048
        weights = 2 * arch["weights_params"]
        cache = 4 * arch["layers"] * arch["kv_heads"] * arch["head_dim"]
        if row["unit"] == "MiB":
            published_bytes, planned = row["value"] * MIB, weights + cache * length + 33 * MIB
        else:
            hidden, inner = QWEN25[row["model"].split("-")[1]]
            shape = shape_of(inspection((), hidden=hidden, inner=inner, vocab=64, heads=8))
            prefill = row["tp"] * prefill_activations(shape, prompt)
            published_bytes = row["value"] * GIB
            planned = max(weights + cache * prompt + prefill, weights + cache * length)
        assert abs(planned - published_bytes) <= max(0.01 * published_bytes, 0.2 * GIB), row["id"]
        checked += 1
    assert checked >= 30
