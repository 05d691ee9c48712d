"""Trained, allowed and published lengths told apart; one scaling, the smallest, never two."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk import jsonio
from ropewalk.engines import EngineName
from ropewalk.errors import UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.rope.decision import RopeAdvice, decide_rope

MakeInspection = Callable[..., Inspection]
ENGINES: tuple[EngineName, ...] = ("vllm", "llama-server", "transformers")
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
YARN4 = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


def decide(
    inspection: Inspection, context_len: int, engine: EngineName = "vllm", **options: Any
) -> RopeAdvice:
    return decide_rope(inspection, context_len=context_len, engine=engine, **options)


def codes(advice: RopeAdvice) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in advice.findings]


# --- Qwen3: the publisher's rule --------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_within_the_trained_length_nothing_is_scaled(qwen3: Inspection, engine: EngineName) -> None:
    advice = decide(qwen3, 32768, engine)
    assert advice.decision.decision == "none"
    assert (advice.decision.type, advice.decision.factor, advice.decision.attention_factor) == (
        None,
        None,
        None,
    )
    assert advice.decision.vllm_hf_overrides is None
    assert advice.decision.transformers_v4 is None
    assert advice.decision.transformers_v5 is None
    assert advice.decision.llama_server_flags == ()
    assert not advice.findings
    assert (advice.native_context, advice.supported_context) == (32768, 131072)


def test_the_config_allows_more_than_was_trained(qwen3: Inspection) -> None:
    advice = decide(qwen3, 40000)
    assert advice.decision.decision == "none"
    (finding,) = advice.findings
    assert (finding.code, finding.severity) == ("context_over_trained", "warning")
    assert finding.where["native_context"] == 32768
    assert "YaRN 1.220703125" in finding.message
    assert decide(qwen3, 40961).decision.decision == "scale"


@pytest.mark.parametrize(
    ("target", "factor", "attention_factor"),
    [
        (65536, 2.0, 1.069315),
        (100000, 3.0517578125, 1.111572),
        (104858, 104858 / 32768, 1.116315),
        (131072, 4.0, 1.138629),
    ],
)
def test_smallest_factor_over_the_trained_length(
    qwen3: Inspection, target: int, factor: float, attention_factor: float
) -> None:
    decision = decide(qwen3, target).decision
    assert (decision.decision, decision.type, decision.factor) == ("scale", "yarn", factor)
    assert decision.original_max_position_embeddings == 32768
    assert decision.attention_factor == pytest.approx(attention_factor, abs=5e-7)
    assert "QwenLM/Qwen3" in decision.source
    assert decision.reason == f"{target:,} / 32,768, the publisher's rule"


def test_static_yarn_costs_short_texts(qwen3: Inspection) -> None:
    assert codes(decide(qwen3, 65536)) == [("short_text_degradation", "warning")]


def test_past_the_publishers_maximum(qwen3: Inspection) -> None:
    refused = decide(qwen3, 200000)
    assert refused.decision.decision == "refuse"
    assert codes(refused) == [("beyond_published_context", "error")]
    assert refused.decision.llama_server_flags == ()
    allowed = decide(qwen3, 200000, allow_unvalidated=True)
    assert allowed.decision.decision == "scale"
    assert allowed.decision.factor == 200000 / 32768
    assert ("beyond_published_context", "warning") in codes(allowed)
    assert "QwenLM" not in allowed.decision.source


def test_vllm_override_and_llama_flags(qwen3: Inspection) -> None:
    decision = decide(qwen3, 131072).decision
    assert decision.vllm_hf_overrides == {
        "max_position_embeddings": 131072,
        "rope_parameters": {**YARN4, "rope_theta": 1000000},
    }
    assert " ".join(decision.llama_server_flags) == "--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768"


def test_the_publishers_block_in_the_config_is_not_stacked(inspection_of: MakeInspection) -> None:
    edited = inspection_of(
        {
            "model_type": "qwen3",
            "max_position_embeddings": 131072,
            "rope_theta": 1000000,
            "rope_scaling": YARN4,
        }
    )
    for target in (8192, 65536, 131072):
        advice = decide(edited, target)
        assert (advice.decision.decision, advice.decision.factor) == ("builtin", 4.0)
        assert advice.decision.vllm_hf_overrides is None
        assert codes(advice) == [("short_text_degradation", "warning")]
    assert decide(edited, 131073, allow_unvalidated=True).decision.decision == "refuse"


def test_the_publishers_block_with_a_short_length_needs_the_length_only(
    inspection_of: MakeInspection,
) -> None:
    """The card's edit leaves max_position_embeddings at 40,960: vLLM 0.30 and later serve no more."""
    edited = inspection_of(
        {
            "model_type": "qwen3",
            "max_position_embeddings": 40960,
            "rope_theta": 1000000,
            "rope_scaling": YARN4,
        }
    )
    advice = decide(edited, 65536)
    assert advice.decision.decision == "builtin"
    assert advice.decision.attention_factor == pytest.approx(1.138629, abs=5e-7)
    assert advice.decision.vllm_hf_overrides == {"max_position_embeddings": 131072}
    assert advice.override_context_len is None
    assert decide(edited, 65536, engine_version="0.29.0").decision.vllm_hf_overrides is None
    assert decide(edited, 65536, "llama-server").override_context_len == 131072


# --- plain, without a rule: the demo's model --------------------------------------------------------------


def test_plain_model_without_a_rule_is_scaled_with_a_warning(plain_gguf: Inspection) -> None:
    advice = decide(plain_gguf, 12288, "llama-server", engine_version="b11434")
    decision = advice.decision
    assert (decision.decision, decision.type, decision.factor) == ("scale", "yarn", 1.5)
    assert decision.original_max_position_embeddings == 8192
    assert decision.llama_server_flags == (
        "--rope-scaling", "yarn", "--rope-scale", "1.5", "--yarn-orig-ctx", "8192",
    )  # fmt: skip
    assert ("beyond_published_context", "warning") in codes(advice)
    assert advice.override_context_len is None
    assert (advice.native_context, advice.supported_context) == (8192, 8192)


def test_old_llama_builds_cap_in_spite_of_yarn(plain_gguf: Inspection) -> None:
    """b8850 needs --override-kv beside the flags (ggml-org/llama.cpp#28030)."""
    assert decide(plain_gguf, 12288, "llama-server", engine_version="b8850").override_context_len == 12288
    assert decide(plain_gguf, 12288, "llama-server").override_context_len is None


def test_gguf_of_qwen3_follows_the_same_rule(inspection_of_gguf: MakeInspection) -> None:
    metadata = {
        "general.architecture": "qwen3", "qwen3.context_length": 40960, "qwen3.rope.freq_base": 1000000.0,
    }  # fmt: skip
    advice = decide(inspection_of_gguf(metadata), 131072, "llama-server")
    flags = advice.decision.llama_server_flags
    assert " ".join(flags) == "--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768"
    assert advice.native_context == 32768


# --- arms -------------------------------------------------------------------------------------------------


def test_arm_shipped_changes_nothing(plain_gguf: Inspection, qwen3: Inspection) -> None:
    assert decide(plain_gguf, 8192, "llama-server", arm="shipped").decision.decision == "none"
    refused = decide(plain_gguf, 12288, "llama-server", arm="shipped")
    assert refused.decision.decision == "refuse"
    assert codes(refused) == [("context_over_trained", "error")]
    assert decide(qwen3, 40960, arm="shipped").decision.decision == "none"


def test_arm_unscaled_lifts_the_limit_alone(plain_gguf: Inspection, qwen3: Inspection) -> None:
    advice = decide(plain_gguf, 12288, "llama-server", arm="unscaled")
    assert advice.decision.decision == "none"
    assert advice.decision.llama_server_flags == ()
    assert advice.override_context_len == 12288
    assert codes(advice) == [("context_over_trained", "warning")]
    vllm = decide(qwen3, 65536, arm="unscaled")
    assert vllm.decision.vllm_hf_overrides == {"max_position_embeddings": 65536}
    assert vllm.override_context_len is None
    within = decide(plain_gguf, 4096, "llama-server", arm="unscaled")
    assert (within.override_context_len, within.findings) == (None, ())


def test_arm_with_a_factor(plain_gguf: Inspection, qwen3: Inspection) -> None:
    advice = decide(plain_gguf, 12288, "llama-server", arm="yarn:2")
    assert advice.decision.factor == 2.0
    assert advice.decision.llama_server_flags[3] == "2"
    short = decide(plain_gguf, 12288, "llama-server", arm="yarn:1.25")
    assert short.decision.decision == "refuse"
    assert codes(short) == [("rope_table_too_short", "error")]
    over = decide(qwen3, 30000, arm="yarn:4")
    assert over.decision.vllm_hf_overrides is not None
    assert over.decision.vllm_hf_overrides["max_position_embeddings"] == 131072
    assert codes(over) == [("short_text_degradation", "warning")]


@pytest.mark.parametrize(
    "arm", ["yarn", "yarn:", "yarn:x", "yarn:0.5", "yarn:nan", "yarn:inf", "linear:2", ""]
)
def test_arms_that_are_none(qwen3: Inspection, arm: str) -> None:
    with pytest.raises(UsageError, match="is not a valid arm"):
        decide(qwen3, 4096, arm=arm)


# --- scalings that are there already ----------------------------------------------------------------------


def test_llama3_is_built_in(inspection_of: MakeInspection) -> None:
    llama = inspection_of(
        {
            "model_type": "llama",
            "max_position_embeddings": 131072,
            "rope_theta": 500000.0,
            "rope_scaling": LLAMA3,
        }
    )
    advice = decide(llama, 128000)
    assert advice.decision.decision == "builtin"
    assert (advice.decision.type, advice.decision.factor, advice.decision.attention_factor) == (
        "llama3",
        8.0,
        1.0,
    )
    assert advice.decision.vllm_hf_overrides is None
    assert advice.supported_context == 131072
    assert not advice.findings
    for allow in (False, True):
        beyond = decide(llama, 200000, allow_unvalidated=allow)
        assert codes(beyond) == [("context_over_trained", "error")]
        assert beyond.decision.decision == "refuse"
    twice = decide(llama, 128000, arm="yarn:2")
    assert codes(twice) == [("context_scaled_twice", "error")]
    assert decide(llama, 200000, arm="unscaled").decision.vllm_hf_overrides == {
        "max_position_embeddings": 200000
    }


def test_deepseek_v3_is_built_in(inspection_of: MakeInspection) -> None:
    block = {
        "type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "mscale": 1.0,
        "mscale_all_dim": 1.0,
    }  # fmt: skip
    deepseek = inspection_of(
        {
            "model_type": "deepseek_v3",
            "max_position_embeddings": 163840,
            "rope_scaling": block,
            "qk_rope_head_dim": 64,
        }
    )
    advice = decide(deepseek, 163840)
    assert (advice.decision.decision, advice.decision.attention_factor) == ("builtin", 1.0)
    assert advice.supported_context == 163840
    assert decide(deepseek, 163841).decision.decision == "refuse"
    rows = decide(deepseek, 200000, arm="unscaled")
    assert codes(rows) == [("rope_table_too_short", "error")]


def test_unknown_model_whose_yarn_reaches_past_its_length(inspection_of: MakeInspection) -> None:
    odd = inspection_of({"model_type": "other", "max_position_embeddings": 40960, "rope_scaling": YARN4})
    refused = decide(odd, 65536)
    assert codes(refused) == [("beyond_published_context", "error")]
    allowed = decide(odd, 65536, allow_unvalidated=True)
    assert allowed.decision.decision == "builtin"
    assert allowed.decision.vllm_hf_overrides == {"max_position_embeddings": 131072}


def test_longrope_is_static_outside_transformers(inspection_of: MakeInspection) -> None:
    lists = {"short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
    phi = inspection_of(
        {
            "model_type": "phi3", "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
            "rope_scaling": {"type": "longrope", **lists},
        },
        head_dim=96,
    )  # fmt: skip
    for engine in ("vllm", "llama-server"):
        assert codes(decide(phi, 8192, engine)) == [("short_text_degradation", "warning")]
    assert not decide(phi, 8192, "transformers").findings
    assert not decide(phi, 4096).findings
    assert decide(phi, 8192).decision.attention_factor == pytest.approx(1.1902380714238083)
    assert decide(phi, 131073).decision.decision == "refuse"


def test_gpt_oss_turns_otherwise_in_llama_cpp(inspection_of: MakeInspection) -> None:
    block = {**YARN4, "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False}
    oss = inspection_of({"model_type": "gpt_oss", "max_position_embeddings": 131072, "rope_scaling": block})
    assert codes(decide(oss, 65536, "llama-server")) == [("rope_frequencies_differ", "warning")]
    assert not decide(oss, 65536, "vllm").findings


def test_dynamic_scaling_works_in_transformers_only(inspection_of: MakeInspection) -> None:
    """vLLM 0.33 accepts 65,536 and builds 32,768 rows; llama.cpp drops the type in conversion."""
    intern = inspection_of(
        {
            "model_type": "internlm2", "max_position_embeddings": 32768, "rope_theta": 1000000,
            "rope_scaling": {"type": "dynamic", "factor": 2.0},
        }
    )  # fmt: skip
    assert codes(decide(intern, 65536, "vllm")) == [("rope_table_too_short", "error")]
    assert codes(decide(intern, 65536, "llama-server")) == [("rope_scaling_unsupported", "error")]
    assert decide(intern, 65536, "transformers").decision.decision == "builtin"
    assert decide(intern, 32768, "vllm").decision.decision == "builtin"


def test_linear_scaling(inspection_of: MakeInspection) -> None:
    linear = {"model_type": "deepseek", "max_position_embeddings": 16384}
    coder = inspection_of({**linear, "rope_scaling": {"type": "linear", "factor": 4.0}})
    assert decide(coder, 65536).decision.vllm_hf_overrides is None  # vLLM multiplies by itself
    assert decide(coder, 65536, "llama-server").override_context_len == 65536  # llama.cpp never does
    whole = inspection_of({**linear, "rope_scaling": {"type": "linear", "factor": 4}})
    assert codes(decide(whole, 8192)) == [("rope_scaling_unsupported", "warning")]


def test_scaling_baked_into_a_gguf(inspection_of_gguf: MakeInspection) -> None:
    metadata = {"general.architecture": "llama", "llama.context_length": 131072}
    gguf = inspection_of_gguf(metadata, has_rope_freqs=True)
    decision = decide(gguf, 65536, "llama-server").decision
    assert (decision.decision, decision.type, decision.factor) == ("builtin", "llama3", None)
    assert decide(gguf, 200000, "llama-server").decision.decision == "refuse"


# --- mixed layers and other positions ---------------------------------------------------------------------


def test_mixed_rotation_needs_a_publishers_rule(inspection_of: MakeInspection) -> None:
    plain = {"model_type": "cohere2", "max_position_embeddings": 8192, "rope_theta": 50000}
    cohere = inspection_of(plain, positions="nope_mixed")
    assert decide(cohere, 8192).decision.decision == "none"
    refused = decide(cohere, 16384, allow_unvalidated=True)
    assert codes(refused) == [("rope_scaling_unsupported", "error")]
    assert decide(cohere, 16384, arm="yarn:2").decision.decision == "scale"


def test_smollm3_has_one(inspection_of: MakeInspection) -> None:
    config = {
        "model_type": "smollm3", "max_position_embeddings": 65536, "rope_theta": 5000000.0,
        "num_hidden_layers": 36, "hidden_size": 2048,
    }  # fmt: skip
    advice = decide(inspection_of(config, positions="nope_mixed"), 131072)
    assert (advice.decision.decision, advice.decision.factor) == ("scale", 2.0)


def test_layer_types_that_differ_need_a_rule(inspection_of: MakeInspection) -> None:
    gemma = inspection_of(
        {"model_type": "gemma3_text", "max_position_embeddings": 32768, "rope_theta": 1000000}
    )
    assert codes(decide(gemma, 65536)) == [("rope_scaling_unsupported", "error")]
    forced = decide(gemma, 65536, arm="yarn:2").decision
    assert forced.vllm_hf_overrides is not None
    blocks = forced.vllm_hf_overrides["rope_parameters"]
    assert blocks["sliding_attention"] == {"rope_type": "default", "rope_theta": 10000.0}
    assert blocks["full_attention"]["factor"] == 2.0


def test_learned_positions_end_with_their_table(inspection_of: MakeInspection) -> None:
    gpt2 = inspection_of({"model_type": "gpt2", "n_positions": 1024}, positions="learned")
    assert decide(gpt2, 1024).decision.decision == "none"
    assert codes(decide(gpt2, 1025)) == [("context_over_trained", "error")]
    assert codes(decide(gpt2, 1024, arm="yarn:2")) == [("rope_scaling_unsupported", "error")]


def test_alibi_has_nothing_to_scale(inspection_of: MakeInspection) -> None:
    mpt = inspection_of({"model_type": "mpt", "max_seq_len": 2048}, positions="alibi")
    advice = decide(mpt, 4096)
    assert advice.decision.decision == "none"
    assert advice.decision.vllm_hf_overrides == {"max_seq_len": 4096}
    assert codes(advice) == [("context_over_trained", "warning")]
    assert decide(mpt, 4096, "llama-server").override_context_len == 4096
    assert decide(mpt, 4096, arm="shipped").decision.decision == "refuse"


def test_recurrent_models_have_no_positions(inspection_of: MakeInspection) -> None:
    mamba = inspection_of({"model_type": "mamba"}, positions="none")
    advice = decide(mamba, 100000)
    assert (advice.decision.decision, advice.findings) == ("none", ())


def test_relative_buckets_are_no_rotation(inspection_of: MakeInspection) -> None:
    t5 = inspection_of({"model_type": "t5", "n_positions": 512}, positions="relative")
    assert codes(decide(t5, 1024)) == [("context_over_trained", "warning")]


def test_no_stated_length(inspection_of: MakeInspection) -> None:
    bare = inspection_of({"model_type": "other", "rope_theta": 10000})
    assert codes(decide(bare, 4096)) == [("native_context_unknown", "warning")]
    assert codes(decide(bare, 4096, arm="yarn:2")) == [("native_context_unknown", "error")]


# --- composite and multimodal -----------------------------------------------------------------------------


def test_composite_overrides_go_under_the_text_config(inspection_of: MakeInspection) -> None:
    block = {
        "rope_type": "default",
        "rope_theta": 5000000,
        "mrope_section": [24, 20, 20],
        "mrope_interleaved": True,
    }
    text = {"model_type": "qwen3_vl_text", "max_position_embeddings": 262144, "rope_parameters": block}
    decision = decide(inspection_of(text, text_config_key="text_config"), 524288).decision
    assert decision.vllm_hf_overrides == {
        "text_config": {
            "max_position_embeddings": 524288,
            "rope_parameters": {
                **block, "rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 262144,
            },
        }
    }  # fmt: skip


def test_chunked_mrope_moves_vllms_range(inspection_of: MakeInspection) -> None:
    block = {"type": "mrope", "mrope_section": [16, 24, 24]}
    config = {"model_type": "qwen2_vl", "max_position_embeddings": 32768, "rope_theta": 1000000.0}
    vl = inspection_of({**config, "rope_scaling": block})
    assert ("rope_frequencies_differ", "warning") in codes(decide(vl, 65536))
    assert ("rope_frequencies_differ", "warning") not in codes(decide(vl, 65536, "llama-server"))


# --- properties -------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(target=st.integers(1, 300_000), engine=st.sampled_from(ENGINES), allow=st.booleans())
def test_qwen3_at_any_length(qwen3: Inspection, target: int, engine: EngineName, allow: bool) -> None:
    advice = decide(qwen3, target, engine, allow_unvalidated=allow)
    decision = advice.decision
    assert (decision.decision == "scale") == (40960 < target <= (300_000 if allow else 131072))
    assert (decision.decision == "refuse") == (target > 131072 and not allow)
    assert jsonio.loads(RopeAdvice, jsonio.dumps(advice)) == advice
    if decision.decision != "scale":
        assert decision.vllm_hf_overrides is None
        return
    override = json.loads(json.dumps(decision.vllm_hf_overrides))
    block = override["rope_parameters"]
    assert override["max_position_embeddings"] == target
    assert int(block["factor"] * block["original_max_position_embeddings"]) == target
    assert block["rope_theta"] == 1000000
    assert decision.transformers_v5 == override
    assert float(decision.llama_server_flags[3]) == pytest.approx(decision.factor, rel=1e-6)
