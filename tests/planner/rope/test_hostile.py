"""Whatever a config says about rope: an answer, or an error of ours that names the block."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk import jsonio
from ropewalk.engines import EngineName
from ropewalk.errors import CheckpointError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.rope.decision import decide_rope
from ropewalk.planner.rope.table import rope_table

MakeInspection = Callable[..., Inspection]
TYPES = ["default", "linear", "dynamic", "ntk", "yarn", "longrope", "llama3", "proportional", "gptj", "none"]
NUMBERS = [1e-300, 1e-9, 0.5, 1, 1.0, 2, 8, 4096, 131072, 1e18, -1, 0, float("nan"), 10**400, None]
LISTS = [[], [1.0], [0.0] * 64, ["x"] * 64, [1.0] * 64, [16, 24, 24], [2**40, 1, 1]]
KEYS = [
    "rope_theta", "factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor",
    "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "attention_factor", "alpha", "mixed_b",
]  # fmt: skip
BLOCKS = st.builds(
    lambda kind, numbers, lists: {"rope_type": kind, **numbers, **lists},
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(NUMBERS), max_size=6),
    st.dictionaries(
        st.sampled_from(["short_factor", "long_factor", "mrope_section"]), st.sampled_from(LISTS), max_size=3
    ),
)


@settings(deadline=None, max_examples=300)
@given(
    block=BLOCKS,
    target=st.sampled_from([1, 4096, 131072, 200000, 2**62]),
    engine=st.sampled_from(["vllm", "llama-server", "transformers"]),
    arm=st.sampled_from(["auto", "shipped", "unscaled", "yarn:2", "yarn:1024"]),
    allow=st.booleans(),
)
def test_decisions_and_tables_of_any_block(
    inspection_of: MakeInspection,
    block: dict[str, Any],
    target: int,
    engine: EngineName,
    arm: str,
    allow: bool,
) -> None:
    inspection = inspection_of({"max_position_embeddings": 131072, "rope_parameters": block})
    advice = decide_rope(inspection, context_len=target, engine=engine, arm=arm, allow_unvalidated=allow)
    assert jsonio.dumps(advice)
    with suppress(CheckpointError):
        table = rope_table(inspection, advice, context_len=target, engine=engine)
        assert len(table.pairs) == 64
        assert jsonio.dumps(table)


def test_a_head_of_any_width_is_not_allocated(inspection_of: MakeInspection) -> None:
    wide = inspection_of({"max_position_embeddings": 4096, "rotary_dim": 2**62})
    advice = decide_rope(wide, context_len=4096, engine="vllm")
    with pytest.raises(CheckpointError, match="4611686018427387904"):
        rope_table(wide, advice, context_len=4096, engine="vllm")
