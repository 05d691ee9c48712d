"""The table of a real server (llama.cpp b11434, SmolLM2-135M and Gemma-3-270M): flags to usable context."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.planner.rope.trained_context import (
    LlamaRope,
    freq_scale,
    shipped_rope,
    trained_context,
    with_flags,
)

PLAIN = {"rope_type": "default", "rope_theta": 100000.0}


def cap(
    context_length: int,
    *,
    block: dict[str, Any] = PLAIN,
    scaling: str | None = None,
    factor: float | None = None,
    original: int | None = None,
    version: str | None = None,
) -> int:
    shipped = shipped_rope(block)
    effective = with_flags(
        shipped, scaling=scaling, scale=freq_scale(factor) if factor else None, original=original
    )
    return trained_context(context_length, shipped, effective, version=version)


@pytest.mark.parametrize(
    ("flags", "usable"),
    [
        ({}, 8192),
        ({"scaling": "yarn", "factor": 2.0}, 16384),
        ({"scaling": "yarn", "factor": 2.0, "original": 8192}, 16384),
        ({"scaling": "yarn", "factor": 4.0}, 32768),
        ({"scaling": "yarn", "factor": 2.0, "original": 4096}, 8192),
        ({"scaling": "yarn"}, 8192),
        ({"scaling": "linear", "factor": 2.0}, 8192),
        ({"factor": 2.0}, 8192),
        ({"scaling": "none", "factor": 2.0}, 8192),
    ],
)
def test_measured_caps_of_smollm2(flags: dict[str, Any], usable: int) -> None:
    assert cap(8192, **flags) == usable


def test_gemma3_with_yarn_2_over_32768_serves_65536() -> None:
    assert cap(32768, scaling="yarn", factor=2.0, original=32768) == 65536


def test_qwen3_needs_the_original_length() -> None:
    """llama.cpp takes context_length 40,960 where --yarn-orig-ctx is left out."""
    assert cap(40960, scaling="yarn", factor=4.0, original=32768) == 131072
    assert cap(40960, scaling="yarn", factor=4.0) == 163840


def test_builds_before_28030_keep_the_cap() -> None:
    assert cap(40960, scaling="yarn", factor=4.0, original=32768, version="b8850") == 40960


def test_a_gguf_that_carries_yarn_is_not_lifted_by_its_own_factor() -> None:
    block = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    assert cap(40960, block=block) == 40960
    assert cap(40960, block=block, factor=4.0) == 40960
    assert cap(40960, block=block, factor=2.0) == 65536


def test_a_scaling_baked_into_tensors_counts_as_none() -> None:
    llama3 = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}
    assert shipped_rope(llama3) == LlamaRope("linear", 1.0, None)
    longrope = {"rope_type": "longrope", "original_max_position_embeddings": 4096}
    assert shipped_rope(longrope) == LlamaRope("longrope", 1.0, 4096)


def test_single_precision_can_cost_the_last_token() -> None:
    """b11549: 8,192 x 1.75 is 14,336, the server has 14,335."""
    assert cap(8192, scaling="yarn", factor=1.75) == 14335
