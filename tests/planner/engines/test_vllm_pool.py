"""Groups and blocks against vLLM 0.32: served configurations and its own planner run offline."""

from __future__ import annotations

import pytest
from tests.planner.models import every

from ropewalk.planner.engines.vllm_pool import Bucket, Pool, make_pool


def two_kinds(total: int, step: int, *, page: int, block: int, window: int) -> Pool:
    full, sliding = every(total, step)
    return make_pool(
        [
            Bucket("full", tuple(full), page, block),
            Bucket("sliding", tuple(sliding), page, block, window),
        ]
    )


def request_bytes(pool: Pool, length: int, in_flight: int, stage: tuple[int, int]) -> int:
    return pool.request_blocks(length, in_flight) * pool.bytes_per_block(stage)


@pytest.mark.parametrize(("in_flight", "needed"), [(2048, 3_275_096_064), (16_384, 3_627_417_600)])
def test_gpt_oss_20b(in_flight: int, needed: int) -> None:
    """alvarobartt/hf-mem#60, reproduced with the spec classes of vLLM 0.32."""
    pool = two_kinds(24, 2, page=16 * 8 * 128 * 2, block=16, window=128)
    assert request_bytes(pool, 131_072, in_flight, (0, 24)) == needed


@pytest.mark.parametrize(("in_flight", "needed"), [(8192, 15_275_130_880), (16_384, 19_301_662_720)])
def test_gemma3_27b(in_flight: int, needed: int) -> None:
    pool = two_kinds(62, 6, page=16 * 16 * 256 * 2, block=16, window=1024)
    assert request_bytes(pool, 131_072, in_flight, (0, 62)) == needed
    assert [len(group.parts[0].layers) for group in pool.groups] == [10, 9, 9, 9, 9, 8, 8]
    assert pool.bytes_per_block((0, 62)) == 1_310_720


@pytest.mark.parametrize(
    ("stages", "blocks"),
    [
        ([(0, 18)], 508),
        ([(0, 9), (9, 18)], 762),
        ([(0, 12), (12, 18)], 762),
        ([(0, 6), (6, 12), (12, 18)], 1525),
    ],
)
def test_hybrids_over_pipeline_stages(stages: list[tuple[int, int]], blocks: int) -> None:
    """Gemma-3-270m, 200 MB per rank: the widest group of a stage decides, not its layers."""
    pool = two_kinds(18, 6, page=128 * 512 * 2, block=128, window=512)
    assert min(200_000_000 // pool.bytes_per_block(stage) for stage in stages) == blocks


def test_one_kind_is_one_group() -> None:
    pool = make_pool([Bucket("full", (0, 2), 100, 16), Bucket("full", (1, 3), 100, 16)])
    assert [group.parts[0].layers for group in pool.groups] == [(0, 1, 2, 3)]
    assert pool.request_blocks(33, 0) == 3


def test_full_layers_of_different_width_share_a_table() -> None:
    pool = make_pool([Bucket("full", (0, 1), 100, 16), Bucket("full", (2,), 70, 16, term="indexer_cache")])
    assert pool.bytes_per_block((0, 3)) == 270
    assert pool.cache_bytes((0, 3), [10]) == {"kv_cache": 2000, "indexer_cache": 700}


def test_windows_alone_are_one_group() -> None:
    """Mistral-7B v0.1, all layers with a window of 4,096: 49 blocks of 128 at 2,048 in flight."""
    pool = make_pool([Bucket("sliding", tuple(range(32)), 128 * 2048 * 2, 128, 4096)])
    assert pool.request_blocks(32_768, 2048) == 49


def test_without_the_hybrid_manager_windows_are_full() -> None:
    pool = make_pool(
        [Bucket("full", (0,), 100, 16), Bucket("sliding", (1, 2, 3, 4, 5), 100, 16, 128)], hybrid=False
    )
    assert len(pool.groups) == 1
    assert request_bytes(pool, 1600, 64, (0, 6)) == 100 * 600


def test_smaller_pages_become_longer_blocks_or_are_padded() -> None:
    longer = make_pool([Bucket("full", (0,), 400, 16), Bucket("sliding", (1,), 100, 16, 64)])
    assert [part.block_size for group in longer.groups for part in group.parts] == [16, 64]
    padded = make_pool([Bucket("full", (0,), 400, 16), Bucket("sliding", (1,), 150, 16, 64)])
    assert [part.page_bytes for group in padded.groups for part in group.parts] == [400, 400]


def test_nearly_equal_buckets_are_padded_to_the_larger() -> None:
    """12 windows and 13 full layers: two groups of 13 instead of four (gpt-oss-20b with EAGLE)."""
    pool = make_pool(
        [Bucket("full", tuple(range(13)), 8, 16), Bucket("sliding", tuple(range(13, 25)), 8, 16, 64)]
    )
    assert len(pool.groups) == 2
    assert pool.bytes_per_block((0, 25)) == 13 * 8


def test_nothing_cached_is_an_empty_pool() -> None:
    pool = make_pool([])
    assert (pool.request_blocks(4096, 2048), pool.bytes_per_block((0, 12))) == (0, 0)
