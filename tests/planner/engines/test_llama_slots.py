"""Cells and streams as a real llama-server printed them (llama.cpp b11434, measured)."""

from __future__ import annotations

import pytest
from tests.planner.models import attention

from ropewalk.inspector.layer_kinds import ChunkedAttention
from ropewalk.planner.engines.llama_slots import resolve_slots

WINDOW_512 = attention(range(15), kv=1, dim=256, window=512)
FULL = attention(range(3), kv=1, dim=256)


@pytest.mark.parametrize(
    ("n_ctx", "num_slots", "unified", "cells", "total"),
    [
        (1000, 1, False, 1024, 1024),  # smollm2_c1000
        (1000, 3, False, 512, 1536),  # smollm2_c1000_np3
        (512, 4, False, 256, 1024),  # smollm2_c512_faon_np4: the division rounds up
        (8192, 3, False, 2816, 8448),  # smollm2_c8192_np3
        (8192, 4, False, 2048, 8192),  # smollm2_c8192_faon_np4
        (8192, 4, True, 8192, 8192),  # smollm2_c8192_faon_np4_kvu
    ],
)
def test_context_is_padded_and_divided(
    n_ctx: int, num_slots: int, unified: bool, cells: int, total: int
) -> None:
    slots = resolve_slots(n_ctx, num_slots=num_slots, unified=unified)
    assert (slots.cells, slots.n_ctx, slots.streams) == (cells, total, 1 if unified else num_slots)


@pytest.mark.parametrize(
    ("n_ctx", "num_slots", "unified", "ubatch", "swa_full", "cells"),
    [
        (8192, 1, False, None, False, 1024),  # gemma3_c8192_faauto_np1
        (8192, 1, False, 128, False, 768),  # gemma3_c8192_faon_np1_ub128
        (8192, 4, False, None, False, 1024),  # gemma3_c8192_faon_np4
        (8192, 4, True, None, False, 2560),  # gemma3_c8192_faon_np4_kvu
        (8192, 1, False, None, True, 8192),  # gemma3_c8192_faon_np1_swafull
        (8192, 1, False, 2048, False, 2560),  # gemma3_c8192_ub2048
        (512, 4, False, None, False, 256),  # gemma3_c512_faon_np4: never more than the context
    ],
)
def test_windows_keep_the_window_and_one_ubatch(
    n_ctx: int, num_slots: int, unified: bool, ubatch: int | None, swa_full: bool, cells: int
) -> None:
    slots = resolve_slots(n_ctx, num_slots=num_slots, unified=unified, ubatch=ubatch, swa_full=swa_full)
    assert slots.layer_cells(WINDOW_512) == cells
    assert slots.layer_cells(FULL) == slots.cells


def test_batches_are_capped_by_the_context_before_padding() -> None:
    slots = resolve_slots(100, num_slots=1, unified=False)
    assert (slots.n_batch, slots.n_ubatch, slots.cells) == (100, 100, 256)
    assert resolve_slots(4096, num_slots=1, unified=False, batch=256).n_ubatch == 256


def test_a_chunk_is_kept_like_a_window() -> None:
    chunked = ChunkedAttention((0,), 8, 8, 128, 128, window=8192)
    assert resolve_slots(131_072, num_slots=1, unified=False).layer_cells(chunked) == 8192 + 512
