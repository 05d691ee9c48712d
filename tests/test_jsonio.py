"""Records to JSON and back, without twin models."""

from __future__ import annotations

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from ropewalk import jsonio
from ropewalk.findings import Finding, by_severity, has_error
from ropewalk.planner.records import PlanRequest, RopeDecision

DECISION = RopeDecision(
    decision="scale",
    type="yarn",
    factor=1.5,
    original_max_position_embeddings=8192,
    attention_factor=1.0405465108108164,
    reason="12,288 / 8,192",
    source="derived",
    vllm_hf_overrides={"rope_parameters": {"factor": 1.5}},
    llama_server_flags=("--rope-scaling", "yarn"),
)


def test_the_plain_walk_writes_what_the_validator_would() -> None:
    assert jsonio.to_data(DECISION) == json.loads(TypeAdapter(RopeDecision).dump_json(DECISION))


def test_records_come_back_equal() -> None:
    assert jsonio.loads(RopeDecision, jsonio.dumps(DECISION)) == DECISION


def test_wrong_types_are_refused_when_read() -> None:
    data = jsonio.to_data(PlanRequest(context_len=4096, engine="vllm"))
    with pytest.raises(ValidationError, match="context_len"):
        jsonio.from_data(PlanRequest, data | {"context_len": "many"})


def test_json_has_no_infinity_and_no_objects() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        jsonio.dumps({"x": float("inf")})
    with pytest.raises(TypeError, match="set has no place in a record"):
        jsonio.dumps({"x": {1}})


def test_findings_sort_by_severity_and_keep_their_order() -> None:
    notes = [Finding("b", "info", ""), Finding("a", "error", ""), Finding("c", "info", "")]
    assert [note.code for note in by_severity(notes)] == ["a", "b", "c"]
    assert has_error(notes)
    assert not has_error(notes[:1])
