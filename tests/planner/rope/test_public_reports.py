"""Public bug reports and questions on rope, with the answers that were worked out for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.inspector.derive.rope_config import standardise_rope
from ropewalk.inspector.published import contexts
from ropewalk.inspector.records import Inspection
from ropewalk.planner.rope.decision import RopeAdvice, decide_rope

MakeInspection = Callable[..., Inspection]
Case = dict[str, Any]


@pytest.fixture(scope="module")
def cases(shared: Path) -> dict[str, Case]:
    """The collection of reports by number."""
    return {case["id"]: case for case in json.loads((shared / "cases" / "cases.json").read_text())}


def vllm(inspection: Inspection, context_len: int, **options: Any) -> RopeAdvice:
    return decide_rope(inspection, context_len=context_len, engine="vllm", engine_version="0.33.0", **options)


def codes(advice: RopeAdvice) -> set[str]:
    return {finding.code for finding in advice.findings}


def test_c29_theta_in_both_generations(cases: dict[str, Case]) -> None:
    case = cases["c29"]
    for name in ("v5", "v4"):
        rope = standardise_rope(case["input"][name], head_dim=128)
        assert rope.facts["rope_theta"].value == case["expected"][name]
        assert not rope.findings
    rope = standardise_rope(case["input"]["both_differ"], head_dim=128)
    assert rope.facts["rope_theta"].value == case["expected"]["both_differ"]["rope_theta"]
    assert [finding.code for finding in rope.findings] == ["rope_theta_conflict"]


def test_c32_yarn_without_an_original_length(cases: dict[str, Case], inspection_of: MakeInspection) -> None:
    case = cases["c32"]
    a = standardise_rope(case["input"]["A"], head_dim=128)
    assert a.parameters["original_max_position_embeddings"] == case["expected"]["A"]["original"]
    assert a.findings[0].where["scaled_context"] == case["expected"]["A"]["scaled_context"]
    b = inspection_of(case["input"]["B"])
    assert b.value("supported_context") == 131072  # never 524288
    c = standardise_rope(case["input"]["C"], head_dim=128)
    assert c.findings[0].where["suggested_factor"] == case["expected"]["C"]["suggested_factor"]


def test_c33_explicit_factor_wins(cases: dict[str, Case], inspection_of: MakeInspection) -> None:
    case = cases["c33"]
    expected = case["expected"]
    config = {**case["input"]["config"], "model_type": "qwen3"}
    where = standardise_rope(config, head_dim=128).findings[0].where
    assert where["implicit_factor"] == expected["implicit_factor"]
    assert where["scaled_context"] == expected["scaled_context"]
    decision = vllm(inspection_of(config), 131072).decision
    assert decision.factor == expected["effective_factor"]
    assert decision.attention_factor == pytest.approx(expected["attention_factor"], abs=5e-7)
    assert decision.vllm_hf_overrides == {"max_position_embeddings": expected["scaled_context"]}


def test_c36_smallest_factor(cases: dict[str, Case], inspection_of: MakeInspection) -> None:
    case = cases["c36"]
    qwen3 = inspection_of(case["input"]["config"])
    assert qwen3.value("native_context") == case["input"]["model_doc_native"]
    by_target = {target: vllm(qwen3, target) for target in case["input"]["targets"]}
    assert by_target[30000].decision.decision == "none"
    assert not by_target[30000].findings
    assert by_target[40000].decision.decision == "none"
    assert codes(by_target[40000]) == {"context_over_trained"}
    for target in (65536, 100000, 131072):
        expected, decision = case["expected"][str(target)], by_target[target].decision
        assert decision.factor == pytest.approx(expected["factor"], abs=5e-5)
    expected, decision = case["expected"]["65536"], by_target[65536].decision
    assert decision.original_max_position_embeddings == expected["original_max_position_embeddings"]
    assert decision.attention_factor == pytest.approx(expected["attention_factor"], abs=5e-7)
    assert codes(by_target[200000]) == {"beyond_published_context"}


def test_c37_lengths_that_are_scaled_already(cases: dict[str, Case], inspection_of: MakeInspection) -> None:
    case = cases["c37"]
    for name, config in case["input"].items():
        inspection = inspection_of(config)
        assert contexts(inspection.facts)["supported_context"].value == case["expected"][name]
        assert vllm(inspection, case["expected"][name]).decision.decision == "builtin"
        assert vllm(inspection, case["expected"][name] + 1).decision.decision == "refuse"
    deepseek = vllm(inspection_of(case["input"]["deepseek_v3"]), 8192).decision
    assert deepseek.attention_factor == case["expected"]["attention_factor_deepseek_v3"]


def test_c39_llama3_is_built_in(cases: dict[str, Case], inspection_of: MakeInspection) -> None:
    case = cases["c39"]
    advice = vllm(inspection_of(case["input"]["config"]), case["input"]["target"])
    assert advice.decision.decision == "builtin"
    assert advice.decision.vllm_hf_overrides == case["expected"]["hf_overrides"]
    assert advice.supported_context == case["expected"]["supported_context"]


def test_c41_and_c42_the_override_that_every_vllm_takes(cases: dict[str, Case], qwen3: Inspection) -> None:
    replacement = cases["c41"]["expected"]["replacement"]
    override = vllm(qwen3, int(replacement[3])).decision.vllm_hf_overrides
    assert override == json.loads(replacement[1])
    assert override is not None
    assert override["max_position_embeddings"] == cases["c42"]["expected"]["with_fix"]


def test_c44_composite_override(cases: dict[str, Case], inspection_of: MakeInspection) -> None:
    case = cases["c44"]
    text = {"model_type": "qwen3_vl_text", **case["input"]["config"]["text_config"]}
    advice = vllm(inspection_of(text, text_config_key="text_config"), case["input"]["target"])
    assert advice.decision.vllm_hf_overrides == case["expected"]["hf_overrides"]


def test_c50_llama_server_flags(cases: dict[str, Case], inspection_of_gguf: MakeInspection) -> None:
    case = cases["c50"]
    metadata = {"general.architecture": "qwen3", "qwen3.context_length": 40960}
    gguf = inspection_of_gguf(metadata)
    target = case["input"]["target"]
    new = decide_rope(gguf, context_len=target, engine="llama-server", engine_version="b11434")
    assert " ".join(new.decision.llama_server_flags) in case["expected"]["flags"]
    assert new.override_context_len is None
    old = decide_rope(
        gguf, context_len=target, engine="llama-server", engine_version=case["input"]["older_build"]
    )
    assert old.override_context_len == 131072
    assert f"context_length=int:{old.override_context_len}" in case["expected"]["older_build_needs_also"]
