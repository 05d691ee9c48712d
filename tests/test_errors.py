"""The error tree is what its drawing says, and every error is told in the contract's form."""

from __future__ import annotations

import re

from ropewalk import errors


def test_the_drawing_in_the_module_is_the_tree() -> None:
    drawn = set(re.findall(r"\w+Error\b", errors.__doc__ or ""))
    real = {name for name in vars(errors) if name.endswith("Error")}
    assert drawn == real


def test_exit_statuses_follow_the_contract() -> None:
    assert errors.UsageError.exit_status == 2
    assert errors.CheckpointMissingError.exit_status == 3
    assert errors.HubError.exit_status == 3
    assert errors.EngineTimeoutError.exit_status == 4


def test_an_error_record_carries_code_and_place() -> None:
    error = errors.CheckpointError(
        "4 bytes are missing", code="truncated_payload", where={"file": "a.safetensors"}
    )
    assert error.record() == {
        "schema": "ropewalk.error/1",
        "code": "truncated_payload",
        "message": "4 bytes are missing",
        "where": {"file": "a.safetensors"},
    }
    assert errors.EngineMissingError("x").code == "engine_missing"
