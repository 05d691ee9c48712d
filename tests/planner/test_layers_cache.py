"""What models need to keep, against exact checkpoints and public reports."""

from __future__ import annotations

import pytest
from tests.planner.models import (
    attention,
    deepseek_v3,
    gemma3_27b,
    llama_8b,
    qwen3_8b,
    qwen3_next_80b,
)

from ropewalk.inspector.layer_kinds import CrossAttention, LatentAttention, LayerGroup, NoCache
from ropewalk.inspector.records import Inspection
from ropewalk.planner.caches import CacheType
from ropewalk.planner.engines.llama_memory import CACHE_TYPES
from ropewalk.planner.layers_cache import logical_cache
from ropewalk.units import GIB

BF16 = CacheType("bfloat16", 1, 2)


def kv_bytes(layers: tuple[LayerGroup, ...], length: int, key: CacheType, value: CacheType) -> int:
    found = logical_cache(layers, context_len=length, key=key, value=value, encoder_len=None)
    return found.kv_bytes


@pytest.mark.parametrize(
    ("model", "gib"),
    [(qwen3_8b(), 18.00), (deepseek_v3(), 8.58), (gemma3_27b(), 10.41), (qwen3_next_80b(), 3.00)],
)
def test_four_exact_checkpoints(model: Inspection, gib: float) -> None:
    """GiB at 131,072 tokens, from the checkpoints themselves; no estimator was right on all four."""
    assert round(kv_bytes(model.layers, 131_072, BF16, BF16) / GIB, 2) == gib


def test_kv_heads_not_query_heads() -> None:
    """Llama-3.1-8B: 131,072 bytes per token, 16 GiB at 131,072 (vllm-project/vllm#29736)."""
    found = logical_cache(llama_8b().layers, context_len=131_072, key=BF16, value=BF16, encoder_len=None)
    assert (found.token_bytes, found.kv_bytes) == (131_072, 17_179_869_184)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("f16", "f16", 17_179_869_184),
        ("q8_0", "q8_0", 9_126_805_504),
        ("q4_0", "q4_0", 4_831_838_208),
        ("q8_0", "q4_0", 6_979_321_856),
        ("q5_1", "q5_1", 6_442_450_944),
    ],
)
def test_block_quantised_types(key: str, value: str, expected: int) -> None:
    """34, 18 and 24 bytes per 32 values (ggml-org/llama.cpp#2969)."""
    layers = (attention(range(32), kv=8, dim=128),)
    assert kv_bytes(layers, 131_072, CACHE_TYPES[key], CACHE_TYPES[value]) == expected


def test_keys_and_values_of_different_width() -> None:
    """deepseek-v2:16b without latent tensors: 8640 MiB at 32,768 (public log)."""
    layers = (attention(range(27), kv=16, dim=192, value_dim=128),)
    assert kv_bytes(layers, 32_768, BF16, BF16) == 8640 * 2**20


def test_a_window_stops_growing() -> None:
    group = attention(range(3), kv=1, dim=64, window=512)
    assert [group.rows(length) for length in (100, 512, 5000)] == [100, 512, 512]


def test_what_is_no_key_or_value_is_apart() -> None:
    layers = (
        LatentAttention((0, 1), 16, 576, indexer_head_dim=128),
        CrossAttention((2,), 8, 8, 64, 64),
        NoCache((3,)),
    )
    found = logical_cache(layers, context_len=100, key=BF16, value=BF16, encoder_len=1500)
    assert found.kv_bytes == 2 * 576 * 2 * 100
    assert found.indexer_bytes == 2 * 128 * 2 * 100
    assert found.cross_bytes == 1500 * 8 * 128 * 2
    assert found.terms(3, state_bytes=0) == {
        "kv_cache": 3 * found.kv_bytes,
        "cross_attention_cache": 3 * found.cross_bytes,
        "indexer_cache": 3 * found.indexer_bytes,
    }


def test_an_encoder_that_reads_the_prompt_is_as_long() -> None:
    layers = (CrossAttention((0,), 8, 8, 64, 64),)
    found = logical_cache(layers, context_len=300, key=BF16, value=BF16, encoder_len=None)
    assert found.cross_bytes == 300 * 8 * 128 * 2
