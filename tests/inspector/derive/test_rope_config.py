"""Rope settings of every generation of keys, to one form; disagreements told, not resolved silently."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.inspector.derive.rope_config import RopeConfig, rope_from_gguf, standardise_rope

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


def read(config: Mapping[str, Any], *, head_dim: int | None = 128, **options: Any) -> RopeConfig:
    return standardise_rope(config, head_dim=head_dim, **options)


def codes(rope: RopeConfig) -> list[str]:
    return [finding.code for finding in rope.findings]


def value(rope: RopeConfig, name: str) -> Any:
    return rope.facts[name].value


# --- generations of keys ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        {"rope_theta": 1000000, "rope_scaling": None},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1000000}},
        {"rope_theta": 1000000, "rope_parameters": {"rope_type": "default"}},
        {"rotary_emb_base": 1000000},
    ],
)
def test_plain_rotation_in_all_spellings(config: dict[str, Any]) -> None:
    rope = read({"model_type": "qwen3", "max_position_embeddings": 40960, **config})
    assert rope.parameters == {"rope_type": "default", "rope_theta": 1000000}
    assert rope.facts["rope_theta"].source == "config"
    assert value(rope, "rope_scaling") is None
    assert value(rope, "rotary_dim") == 128
    assert not rope.findings


@pytest.mark.parametrize(
    "block", [YARN, {**YARN, "type": "yarn"}, {"type": "yarn", **dict(list(YARN.items())[1:])}]
)
def test_legacy_and_modern_type_key(block: dict[str, Any]) -> None:
    rope = read({"max_position_embeddings": 131072, "rope_theta": 1000000, "rope_scaling": block})
    assert value(rope, "rope_scaling") == YARN
    assert value(rope, "rope_parameters") == {**YARN, "rope_theta": 1000000}
    assert not rope.findings


def test_conflicting_types_are_an_error() -> None:
    block = {"type": "linear", "rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32768}
    rope = read({"rope_scaling": block, "max_position_embeddings": 65536})
    assert rope.parameters["rope_type"] == "yarn"
    (finding,) = rope.findings
    assert (finding.code, finding.severity) == ("rope_type_conflict", "error")
    assert finding.where == {"type": "linear", "rope_type": "yarn"}


def test_mrope_is_plain_rotation_with_sections() -> None:
    rope = read({"rope_scaling": {"type": "mrope", "rope_type": "default", "mrope_section": [16, 24, 24]}})
    assert value(rope, "rope_scaling") == {"rope_type": "default", "mrope_section": [16, 24, 24]}
    assert not rope.findings


def test_su_is_longrope_under_an_old_name() -> None:
    lists = {"short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
    config = {"original_max_position_embeddings": 4096, "rope_scaling": {"type": "su", **lists}}
    rope = read(config, head_dim=96)
    assert rope.parameters["rope_type"] == "longrope"
    assert rope.parameters["original_max_position_embeddings"] == 4096
    assert codes(rope) == ["rope_type_legacy"]


def test_telechat3_is_yarn_with_its_own_magnitude() -> None:
    block = {"rope_type": "telechat3-yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
    rope = read({"max_position_embeddings": 32768, "rope_scaling": block})
    assert rope.parameters["rope_type"] == "yarn"
    assert rope.parameters["attention_factor"] == pytest.approx(0.07 * math.log(4) + 1)


def test_nested_theta_wins_over_the_one_beside_it() -> None:
    rope = read(
        {
            "rope_theta": 10000,
            "rope_parameters": {**YARN, "rope_theta": 5000000},
            "max_position_embeddings": 131072,
        }
    )
    assert value(rope, "rope_theta") == 5000000
    (finding,) = rope.findings
    assert (finding.code, finding.where) == ("rope_theta_conflict", {"top_level": 10000, "nested": 5000000})


def test_two_blocks_that_disagree() -> None:
    rope = read({"rope_scaling": YARN, "rope_parameters": {"rope_type": "linear", "factor": 2.0}})
    assert rope.parameters["rope_type"] == "yarn"
    assert codes(rope) == ["rope_type_conflict"]


def test_a_missing_theta_is_a_default_and_shown_as_one() -> None:
    assert read({"model_type": "llama"}).facts["rope_theta"].value == 10000.0
    assert read({"model_type": "llama"}).facts["rope_theta"].source == "default"
    oss = read({"model_type": "gpt_oss"}, head_dim=64).facts["rope_theta"]
    assert (oss.value, oss.source) == (150000.0, "default")


def test_chatglm_multiplies_its_base() -> None:
    rope = read({"model_type": "chatglm", "rope_ratio": 500})
    assert value(rope, "rope_theta") == 5_000_000
    assert value(rope, "rotary_dim") == 64


# --- share of each head -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "head_dim", "partial", "rotary_dim"),
    [
        ({"partial_rotary_factor": 0.75}, 128, 0.75, 96),  # Phi-4-mini
        ({"rotary_pct": 0.25}, 64, 0.25, 16),  # Pythia
        ({"model_type": "gpt_neox"}, 64, 0.25, 16),
        ({"rotary_dim": 64}, 256, 0.25, 64),  # GPT-J
        ({"rotary_dim": 64}, 128, 0.5, 64),  # MiniMax-M2.5
        ({"partial_rotary_factor": 0.334}, 192, 0.334, 64),  # MiMo-V2-Flash
        ({"qk_rope_head_dim": 64}, 64, 1.0, 64),  # DeepSeek-V3
        ({"qk_rope_head_dim": 0}, 128, 1.0, 128),  # DeepSeek-OCR-2
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}}, 256, 0.25, 64),
    ],
)
def test_rotated_share(config: dict[str, Any], head_dim: int, partial: float, rotary_dim: int) -> None:
    rope = read(config, head_dim=head_dim)
    assert value(rope, "partial_rotary_factor") == pytest.approx(partial)
    assert value(rope, "rotary_dim") == rotary_dim


def test_unknown_head_dim_stays_unknown() -> None:
    assert value(read({"rope_theta": 1e4}, head_dim=None), "rotary_dim") is None


def test_no_rotary_positions() -> None:
    rope = read({"n_positions": 1024}, rotary=False)
    assert rope.parameters == {}
    assert {fact.value for fact in rope.facts.values()} == {None}


# --- original length and factor ---------------------------------------------------------------------------


def test_missing_original_is_assumed_and_told() -> None:
    rope = read({"max_position_embeddings": 32768, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}})
    assert rope.parameters["original_max_position_embeddings"] == 32768
    (finding,) = rope.findings
    assert finding.code == "rope_original_missing"
    assert finding.where == {"assumed": 32768, "scaled_context": 131072, "if_already_scaled": 8192.0}


def test_missing_original_of_a_length_already_scaled() -> None:
    rope = read({"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}})
    (finding,) = rope.findings
    assert finding.severity == "warning"
    assert finding.where["if_already_scaled"] == 32768
    assert "32768" in finding.message


def test_missing_factor_is_an_error_with_a_suggestion() -> None:
    block = {"rope_type": "yarn", "original_max_position_embeddings": 32768}
    (finding,) = read({"max_position_embeddings": 131072, "rope_scaling": block}).findings
    assert (finding.code, finding.severity) == ("rope_factor_missing", "error")
    assert finding.where["suggested_factor"] == 4.0


def test_factor_that_disagrees_with_the_lengths() -> None:
    rope = read({"max_position_embeddings": 40960, "rope_scaling": YARN})
    assert rope.parameters["factor"] == 4.0
    (finding,) = rope.findings
    assert (finding.code, finding.severity) == ("rope_factor_mismatch", "warning")
    assert finding.where == {
        "factor": 4.0, "implicit_factor": 1.25, "scaled_context": 131072, "max_position_embeddings": 40960,
    }  # fmt: skip


def test_llama3_needs_no_agreement_of_factor_and_lengths() -> None:
    block = {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }  # fmt: skip
    assert not read({"max_position_embeddings": 131072, "rope_theta": 5e5, "rope_scaling": block}).findings


# --- longrope ---------------------------------------------------------------------------------------------

PHI4_MINI: dict[str, Any] = {
    "model_type": "phi3",
    "partial_rotary_factor": 0.75,
    "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
}


def longrope(length: int) -> dict[str, Any]:
    return {
        "rope_scaling": {"type": "longrope", "short_factor": [1.0] * length, "long_factor": [2.0] * length}
    }


def test_longrope_lists_have_one_number_for_each_rotated_pair() -> None:
    assert not read(PHI4_MINI | longrope(48)).findings
    bad = read(PHI4_MINI | longrope(64)).findings
    assert [(f.code, f.where["expected"], f.where["got"]) for f in bad] == [("longrope_length", 48, 64)] * 2
    whole = {key: item for key, item in PHI4_MINI.items() if key != "partial_rotary_factor"}
    bad = read(whole | longrope(48)).findings
    assert [(f.code, f.where["expected"], f.where["got"]) for f in bad] == [("longrope_length", 64, 48)] * 2


def test_null_head_dim_breaks_transformers_not_us() -> None:
    rope = read(PHI4_MINI | longrope(48) | {"head_dim": None})
    assert codes(rope) == ["head_dim_null"]
    assert rope.findings[0].severity == "warning"


# --- per layer type ---------------------------------------------------------------------------------------


def test_gemma3_in_three_spellings() -> None:
    flat = {
        "model_type": "gemma3_text",
        "rope_theta": 1000000,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    }
    nested = {
        "model_type": "gemma3_text",
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    }
    bare = {"model_type": "gemma3_text", "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    for config in (flat, {**flat, "rope_local_base_freq": 10000.0}, nested, bare):
        rope = read(config)
        assert rope.per_layer_type is not None
        assert rope.parameters == {"rope_type": "linear", "rope_theta": 1000000, "factor": 8.0}
        assert rope.per_layer_type["sliding_attention"] == {"rope_type": "default", "rope_theta": 10000.0}
        assert value(rope, "rope_parameters") == rope.per_layer_type


def test_olmo3_scales_full_layers_only() -> None:
    scaling = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192}
    config = {"model_type": "olmo3", "rope_theta": 500000, "max_position_embeddings": 65536}
    rope = read({**config, "rope_scaling": scaling})
    assert rope.per_layer_type is not None
    assert rope.per_layer_type["full_attention"] == rope.parameters
    assert rope.per_layer_type["sliding_attention"] == {"rope_type": "default", "rope_theta": 500000}
    assert rope.parameters["factor"] == 8.0


def test_layer_type_without_rotation_is_none() -> None:
    rope = read({"rope_parameters": {"full_attention": None, "sliding_attention": {"rope_theta": 10000}}})
    assert rope.per_layer_type == {
        "full_attention": None,
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000},
    }
    assert rope.parameters["rope_theta"] == 10000


def test_deepseek_v4_scales_compressed_layers_without_magnitude() -> None:
    block = {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65536}
    rope = read({"rope_theta": 10000, "compress_rope_theta": 160000, "max_position_embeddings": 1048576,
                 "rope_scaling": block, "qk_rope_head_dim": 64}, head_dim=64)  # fmt: skip
    assert rope.per_layer_type is not None
    assert rope.per_layer_type["main"] == {"rope_type": "default", "rope_theta": 10000}
    assert (rope.parameters["rope_theta"], rope.parameters["attention_factor"]) == (160000, 1.0)
    assert not rope.findings


def test_one_base_per_layer() -> None:
    """Step-3.5-Flash: a list of bases beside layer_types."""
    types = ["full_attention", "sliding_attention", "sliding_attention"]
    rope = read({"rope_theta": [5e6, 1e4, 1e4], "layer_types": types})
    assert rope.per_layer_type is not None
    assert {key: block and block["rope_theta"] for key, block in rope.per_layer_type.items()} == {
        "full_attention": 5e6,
        "sliding_attention": 1e4,
    }
    assert codes(read({"rope_theta": [5e6, 1e4]})) == ["rope_value_invalid"]


def test_block_beside_the_text_config_is_told() -> None:
    text = {"rope_parameters": {"rope_type": "default", "rope_theta": 5000000}}
    rope = read(text, outer={"text_config": text, "rope_parameters": YARN})
    (finding,) = rope.findings
    assert finding.code == "rope_override_ignored"
    assert finding.where == {"field": "rope_parameters", "top_level": "yarn", "text_config": "default"}
    assert not read(text, outer={"text_config": text, **text}).findings


# --- hostile values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"rope_scaling": {**YARN, "factor": "4.0"}}, "factor"),
        ({"rope_scaling": {**YARN, "factor": -4.0}}, "factor"),
        ({"rope_scaling": {**YARN, "factor": float("nan")}}, "factor"),
        ({"rope_scaling": {**YARN, "factor": True}}, "factor"),
        (
            {"rope_scaling": {**YARN, "original_max_position_embeddings": 0}},
            "original_max_position_embeddings",
        ),
        ({"rope_scaling": {**YARN, "beta_fast": [32]}}, "beta_fast"),
        ({"rope_theta": 10**400}, "rope_theta"),
        ({"rope_theta": "1e6"}, "rope_theta"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 0.5}}, "rope_theta"),
        ({"rope_scaling": "yarn"}, "rope_scaling"),
        ({"partial_rotary_factor": 0}, "partial_rotary_factor"),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [16, -24]}}, "mrope_section"),
    ],
)
def test_values_that_are_no_numbers_are_told_and_left_out(config: dict[str, Any], field: str) -> None:
    rope = read({"max_position_embeddings": 131072, **config})
    invalid = [finding for finding in rope.findings if finding.code == "rope_value_invalid"]
    assert [finding.where["field"] for finding in invalid] == [field]
    assert rope.facts["rope_theta"].value == 10000.0
    assert rope.facts["rope_theta"].source == "default"


ODD = [
    None, True, 0, -1, 1, 2, 64, 4096, 0.5, 1e-9, 1e300, -1e300, 10**400, float("nan"), float("inf"), "",
    "1e6", [], {}, [1.0], [1.0, "x"], [None], {"rope_type": None}, ["full_attention", "sliding_attention"],
    "yarn", "longrope", "llama3", "linear", "su", "telechat3-yarn", "gptj", "olmo3", "gemma3_text",
]  # fmt: skip
KEYS = [
    "rope_theta", "rope_type", "type", "factor", "original_max_position_embeddings", "short_factor",
    "long_factor", "partial_rotary_factor", "mrope_section", "attention_factor", "full_attention",
]  # fmt: skip
TOP_KEYS = [
    "rope_theta", "rope_scaling", "rope_parameters", "rope_local_base_freq", "compress_rope_theta",
    "layer_types", "partial_rotary_factor", "rotary_dim", "qk_rope_head_dim", "max_position_embeddings",
    "model_type", "head_dim", "original_max_position_embeddings", "rope_ratio",
]  # fmt: skip
BLOCK = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(ODD), max_size=5)
NESTED = st.dictionaries(st.sampled_from(["full_attention", "sliding_attention", "main"]), BLOCK, max_size=2)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(TOP_KEYS), st.sampled_from(ODD) | BLOCK | NESTED, max_size=6))
def test_no_config_breaks_the_reader(config: dict[str, Any]) -> None:
    rope = read(config, outer={"rope_scaling": config})
    assert isinstance(rope.parameters["rope_theta"], int | float)
    assert isinstance(rope.parameters["rope_type"], str)


# --- GGUF -------------------------------------------------------------------------------------------------


def gguf(arch: str, **keys: Any) -> dict[str, Any]:
    named = {f"{arch}.{key.replace('__', '.')}": item for key, item in keys.items()}
    return {"general.architecture": arch, **named}


def test_gguf_gives_the_same_block_as_the_config() -> None:
    metadata = gguf(
        "qwen3", context_length=131072, rope__freq_base=1000000.0, rope__scaling__type="yarn",
        rope__scaling__factor=4.0, rope__scaling__original_context_length=32768,
    )  # fmt: skip
    rope = rope_from_gguf(metadata, head_dim=128)
    config = read({"max_position_embeddings": 131072, "rope_theta": 1000000.0, "rope_scaling": YARN})
    assert rope.parameters == config.parameters
    assert value(rope, "rope_scaling") == YARN
    assert {fact.source for fact in rope.facts.values()} == {"gguf", "derived"}


def test_gguf_yarn_with_a_short_context_length() -> None:
    metadata = gguf(
        "qwen3", context_length=40960, rope__scaling__type="yarn", rope__scaling__factor=4.0,
        rope__scaling__original_context_length=32768,
    )  # fmt: skip
    assert codes(rope_from_gguf(metadata, head_dim=128)) == ["rope_factor_mismatch"]


def test_gguf_plain() -> None:
    rope = rope_from_gguf(gguf("llama", rope__freq_base=100000.0, rope__dimension_count=64), head_dim=64)
    assert rope.parameters == {"rope_type": "default", "rope_theta": 100000.0}
    assert (value(rope, "rotary_dim"), value(rope, "partial_rotary_factor")) == (64, 1.0)
    silent = rope_from_gguf(gguf("llama"), head_dim=64).facts["rope_theta"]
    assert (silent.value, silent.source) == (10000.0, "default")


@pytest.mark.parametrize(
    ("arch", "tensors", "expected"),
    [
        ("llama", {"has_rope_freqs": True}, "llama3"),
        ("gemma4", {"has_rope_freqs": True}, "proportional"),
        ("phi3", {"has_long_factors": True}, "longrope"),
        ("llama", {}, "default"),
    ],
)
def test_gguf_scalings_baked_into_tensors(arch: str, tensors: dict[str, bool], expected: str) -> None:
    rope = rope_from_gguf(gguf(arch, context_length=131072), head_dim=128, **tensors)
    assert rope.parameters["rope_type"] == expected
    assert "factor" not in rope.parameters
    assert not rope.findings


def test_gguf_deepseek_multiplier_is_both_mscales() -> None:
    metadata = gguf(
        "deepseek2", context_length=163840, rope__scaling__type="yarn", rope__scaling__factor=40.0,
        rope__scaling__original_context_length=4096, rope__scaling__yarn_log_multiplier=0.1,
    )  # fmt: skip
    block = rope_from_gguf(metadata, head_dim=64).parameters
    assert (block["mscale"], block["mscale_all_dim"]) == (1.0, 1.0)


def test_gguf_layer_types_and_sections() -> None:
    metadata = gguf(
        "gemma3", context_length=131072, attention__sliding_window=1024, rope__freq_base=1000000.0,
        rope__scaling__type="linear", rope__scaling__factor=8.0,
    )  # fmt: skip
    rope = rope_from_gguf(metadata, head_dim=128)
    assert rope.per_layer_type is not None
    assert rope.per_layer_type["sliding_attention"] == {"rope_type": "default", "rope_theta": 10000.0}
    assert rope.parameters["rope_type"] == "linear"
    vl = rope_from_gguf(gguf("qwen2vl", rope__dimension_sections=[16, 24, 24, 0]), head_dim=128)
    assert vl.parameters["mrope_section"] == [16, 24, 24]


@pytest.mark.parametrize(("kind", "factor"), [("none", 4.0), ("linear", 1.0), ("yarn", 1.0)])
def test_gguf_scaling_of_one_is_none(kind: str, factor: float) -> None:
    metadata = gguf("llama", rope__scaling__type=kind, rope__scaling__factor=factor)
    rope = rope_from_gguf(metadata, head_dim=64)
    assert value(rope, "rope_scaling") is None


# --- real configs -----------------------------------------------------------------------------------------


def test_every_config_of_the_corpus_is_read(shared: Path) -> None:
    """Only what is known to be odd is told: an invented type, an old name."""
    told = {}
    for path in sorted((shared / "corpus" / "configs").glob("*.json")):
        config = json.loads(path.read_text())
        if path.name.endswith("hf_quant_config.json"):
            continue
        text = config.get("text_config") or config.get("language_config") or config
        rope = read(text, head_dim=None, outer=config)
        if rope.findings:
            told[path.stem] = codes(rope)
    assert told == {
        "EleutherAI--gpt-j-6b": ["rope_type_unknown"],
        "microsoft--Phi-3.5-vision-instruct": ["rope_type_legacy"],
    }
