"""One decision in each engine's words, read back to the same numbers."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.planner.rope.emit import (
    emit_length,
    emit_yarn,
    format_number,
    llama_yarn_flags,
    smallest_factor,
    yarn_block,
)

QWEN3 = {"rope_type": "default", "rope_theta": 1000000}
ORIGINALS = st.sampled_from([2048, 4096, 8192, 32768, 40000, 65536, 131072, 262144, 5000, 12345])


def single(value: float) -> float:
    rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return rounded


def llama_slot_context(flag: str, original: int) -> int:
    """common/arg.cpp and llama-context.cpp:3895 of llama.cpp b11434, in single precision."""
    freq_scale = single(1.0 / single(float(flag)))
    return int(single(single(original) / freq_scale))


@settings(deadline=None)
@given(original=ORIGINALS, share=st.floats(1.0, 32.0))
def test_factor_is_the_smallest_that_covers_the_target(original: int, share: float) -> None:
    target = int(original * share)
    factor = smallest_factor(target, original)
    assert int(original * factor) >= target
    assert factor == pytest.approx(target / original, rel=1e-15)
    assert int(original * (factor * (1 - 1e-12))) < target


@settings(deadline=None)
@given(original=ORIGINALS, share=st.floats(1.0, 32.0))
def test_llama_flags_serve_the_target_and_read_back(original: int, share: float) -> None:
    target = int(original * share)
    factor = smallest_factor(target, original)
    flags = llama_yarn_flags(factor, original, target_len=target)
    assert flags[0::2] == ("--rope-scaling", "--rope-scale", "--yarn-orig-ctx")
    assert (flags[1], flags[5]) == ("yarn", str(original))
    assert float(flags[3]) == pytest.approx(factor, rel=1e-6)
    assert llama_slot_context(flags[3], original) >= target


def test_flags_are_exact_where_single_precision_allows() -> None:
    assert llama_yarn_flags(4.0, 32768, target_len=131072) == (
        "--rope-scaling", "yarn", "--rope-scale", "4", "--yarn-orig-ctx", "32768",
    )  # fmt: skip
    assert llama_yarn_flags(1.5, 8192, target_len=12288)[3] == "1.5"


def test_a_token_lost_to_single_precision_is_bought_back() -> None:
    """Measured on llama.cpp b11549 with SmolLM2: 1.75 serves 14,335 of 14,336 tokens, 1.7500001 all."""
    assert llama_slot_context("1.75", 8192) == 14335
    assert llama_yarn_flags(1.75, 8192, target_len=14336)[3] == "1.7500001"
    assert llama_yarn_flags(1.75, 8192, target_len=14335)[3] == "1.75"


@settings(deadline=None)
@given(st.floats(1.0, 1e6))
def test_numbers_read_back(value: float) -> None:
    assert float(format_number(value)) == value


def test_whole_numbers_have_no_point() -> None:
    assert (format_number(2.0), format_number(3.2)) == ("2", "3.2")


def emit(block: dict[str, Any], factor: float, original: int, **options: Any) -> Any:
    added = yarn_block(block, factor=factor, original=original)
    length = int(factor * original)
    given_options = {"text_config_key": None, **options}
    parameters = given_options.pop("parameters", block)
    return emit_yarn(parameters, added, max_len=length, target_len=length, **given_options)


def test_qwen3_blocks() -> None:
    """The three forms of QwenLM/Qwen3's rule for 131,072 tokens."""
    emission = emit(QWEN3, 4.0, 32768)
    assert emission.transformers_v5 == {
        "max_position_embeddings": 131072,
        "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 1000000, "factor": 4.0,
            "original_max_position_embeddings": 32768,
        },
    }  # fmt: skip
    assert emission.transformers_v4 == {
        "max_position_embeddings": 131072,
        "rope_theta": 1000000,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
    }
    assert json.dumps(emission.vllm_hf_overrides, separators=(",", ":")) == (
        '{"max_position_embeddings":131072,"rope_parameters":{"rope_type":"yarn","rope_theta":1000000,'
        '"factor":4.0,"original_max_position_embeddings":32768}}'
    )


def test_factor_is_written_as_a_float_and_theta_kept() -> None:
    text = json.dumps(emit(QWEN3, 2, 32768).vllm_hf_overrides)
    assert '"factor": 2.0' in text
    assert json.loads(text)["rope_parameters"]["rope_theta"] == 1000000


def test_other_keys_of_the_block_survive() -> None:
    block = {
        "rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25,
        "mrope_section": [11, 11, 10], "mrope_interleaved": True,
    }  # fmt: skip
    emission = emit(block, 4.0, 262144, text_config_key="text_config")
    inner = emission.vllm_hf_overrides["text_config"]
    assert set(emission.vllm_hf_overrides) == {"text_config"}
    assert inner["rope_parameters"] == {
        **block, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 262144,
    }  # fmt: skip
    v4 = emission.transformers_v4["text_config"]
    assert (v4["partial_rotary_factor"], v4["rope_theta"]) == (0.25, 10000000)
    assert v4["rope_scaling"]["mrope_section"] == [11, 11, 10]


def test_nested_layer_types_are_emitted_whole() -> None:
    full = {"rope_type": "default", "rope_theta": 1000000}
    sliding = {"rope_type": "default", "rope_theta": 10000.0}
    parameters = {"full_attention": full, "sliding_attention": sliding}
    blocks = emit(full, 2.0, 32768, parameters=parameters).vllm_hf_overrides["rope_parameters"]
    assert blocks["sliding_attention"] == sliding
    assert blocks["full_attention"]["rope_type"] == "yarn"


def test_old_vllm_reads_the_old_keys() -> None:
    emission = emit(QWEN3, 4.0, 32768, new_keys=False)
    assert emission.vllm_hf_overrides == emission.transformers_v4


def test_dotted_keys_nest_twice() -> None:
    emission = emit_length(4096, context_key="max_seq_len", text_config_key="thinker_config.text_config")
    assert emission.vllm_hf_overrides == {"thinker_config": {"text_config": {"max_seq_len": 4096}}}
    assert emission.llama_server_flags == ()
