"""The rotation table that ``ropewalk rope`` prints."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ropewalk import jsonio
from ropewalk.engines import EngineName
from ropewalk.errors import CheckpointError, UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.rope.decision import decide_rope
from ropewalk.planner.rope.table import RopeTable, rope_table

MakeInspection = Callable[..., Inspection]


def table_of(
    inspection: Inspection, context_len: int, engine: EngineName = "vllm", arm: str = "auto"
) -> RopeTable:
    advice = decide_rope(inspection, context_len=context_len, engine=engine, arm=arm)
    return rope_table(inspection, advice, context_len=context_len, engine=engine)


def test_rates_and_wavelengths_of_qwen3(qwen3: Inspection) -> None:
    """Pair, rate and tokens per turn for head_dim 128, theta 1,000,000."""
    table = table_of(qwen3, 32768)
    expected = {
        0: (1.0, 6), 1: (0.8058, 8), 16: (3.162e-2, 199), 32: (1e-3, 6283), 48: (3.162e-5, 198692),
        63: (1.241e-6, 5063256),
    }  # fmt: skip
    for index, (rate, wavelength) in expected.items():
        pair = table.pairs[index]
        assert pair.rate == pytest.approx(rate, rel=5e-4)
        assert pair.wavelength is not None
        assert round(pair.wavelength) == wavelength
        assert (pair.scaled_rate, pair.ratio) == (pair.rate, 1.0)
    assert len(table.pairs) == 64
    assert table.touched == ()
    assert (table.attention_factor, table.rotary_dim) == (1.0, 128)


def test_pairs_that_never_complete_a_turn_in_training(qwen3: Inspection) -> None:
    incomplete = table_of(qwen3, 32768).incomplete
    assert incomplete == tuple(range(40, 64))  # pair 39 turns once in 28,473 tokens, pair 40 in 35,333


def test_yarn_touches_the_slow_pairs(qwen3: Inspection) -> None:
    table = table_of(qwen3, 131072)
    assert table.touched == tuple(range(24, 64))  # the ramp begins at 23
    assert table.pairs[23].ratio == 1.0
    assert table.pairs[63].ratio == pytest.approx(0.25)
    assert table.pairs[32].scaled_rate == pytest.approx(6.029411452e-4, rel=1e-6)
    assert table.attention_factor == pytest.approx(1.138629436, rel=1e-9)
    assert table.incomplete == tuple(range(40, 64))  # a matter of training, not of this plan


def test_builtin_scaling_is_shown_against_plain_rotation(inspection_of: MakeInspection) -> None:
    llama = inspection_of(
        {
            "model_type": "llama", "max_position_embeddings": 131072, "rope_theta": 500000.0,
            "rope_scaling": {
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        }
    )  # fmt: skip
    table = table_of(llama, 128000)
    assert table.touched == tuple(range(29, 64))
    assert table.pairs[40].ratio == pytest.approx(1 / 8)


def test_scaling_in_a_gguf_tensor_stays_unknown(inspection_of_gguf: MakeInspection) -> None:
    gguf = inspection_of_gguf(
        {"general.architecture": "llama", "llama.context_length": 131072, "llama.rope.freq_base": 500000.0},
        has_rope_freqs=True,
    )
    table = table_of(gguf, 65536, "llama-server")
    assert table.pairs[40].rate > 0
    assert {pair.scaled_rate for pair in table.pairs} == {None}
    assert table.attention_factor is None


def test_multimodal_axes(inspection_of: MakeInspection) -> None:
    block = {"rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True}
    vl = inspection_of({"max_position_embeddings": 262144, "rope_theta": 5000000, "rope_scaling": block})
    assert [pair.axis for pair in table_of(vl, 4096).pairs[:4]] == [0, 1, 2, 0]


def test_half_of_a_head(inspection_of: MakeInspection) -> None:
    phi = inspection_of({"max_position_embeddings": 2048, "partial_rotary_factor": 0.4}, head_dim=80)
    table = table_of(phi, 2048)
    assert (table.head_dim, table.rotary_dim, len(table.pairs)) == (80, 32, 16)


def test_no_rotary_positions(inspection_of: MakeInspection) -> None:
    gpt2 = inspection_of({"model_type": "gpt2", "n_positions": 1024}, positions="learned")
    with pytest.raises(UsageError, match="learned"):
        table_of(gpt2, 512)


def test_a_block_that_cannot_be_computed(inspection_of: MakeInspection) -> None:
    block = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 2048, "beta_fast": -1}
    broken = inspection_of({"max_position_embeddings": 4096, "rope_scaling": block})
    with pytest.raises(CheckpointError, match="math domain error"):
        table_of(broken, 2048)


def test_record_reads_back(qwen3: Inspection) -> None:
    table = table_of(qwen3, 65536)
    assert jsonio.loads(RopeTable, jsonio.dumps(table)) == table
    assert table.schema == "ropewalk.rope/1"
