"""Bytes of a row in each cache type."""

from __future__ import annotations

import pytest

from ropewalk.planner.caches import CacheType, find_cache_type
from ropewalk.planner.engines.llama_memory import CACHE_TYPES
from ropewalk.planner.engines.vllm_settings import GPU_TYPES


@pytest.mark.parametrize(
    ("name", "row"),
    [("f32", 512), ("f16", 256), ("q8_0", 136), ("q5_1", 96), ("q5_0", 88), ("q4_1", 80), ("iq4_nl", 72)],
)
def test_ggml_rows_of_128(name: str, row: int) -> None:
    assert CACHE_TYPES[name].row_bytes(1, 128) == row


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("bfloat16", 256),
        ("fp8", 128),
        ("int8_per_token_head", 132),
        ("int4_per_token_head", 68),
        ("nvfp4", 72),
    ],
)
def test_vllm_rows_of_128(name: str, row: int) -> None:
    assert GPU_TYPES[name].row_bytes(1, 128) == row


@pytest.mark.parametrize(("name", "row"), [("fp8_ds_mla", 656), ("nvfp4_ds_mla", 352), ("bfloat16", 1152)])
def test_latent_rows(name: str, row: int) -> None:
    assert GPU_TYPES[name].row_bytes(1, 576) == row


def test_scales_are_paid_per_head_and_only_where_there_are_values() -> None:
    kind = CacheType("scaled", 1, 1, head_bytes=4)
    assert (kind.row_bytes(8, 64), kind.row_bytes(8, 0)) == (8 * 68, 0)


def test_what_counts_as_quantised() -> None:
    assert [name for name, kind in CACHE_TYPES.items() if not kind.quantised] == ["f32", "f16", "bf16"]
    assert find_cache_type(CACHE_TYPES, "q8_0", engine="llama-server").quantised
