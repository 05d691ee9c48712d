"""vLLM's own way of reading its arguments."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.checking import CheckResult, check_command


def check(text: str, version: str | None = None) -> CheckResult:
    return check_command([f"vllm serve org/model {text}"], engine_version=version)


def codes(result: CheckResult) -> list[str]:
    return [finding.code for finding in result.findings if finding.code != "checkpoint_not_read"]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("--max-model-len 8K", "--max-model-len", 8192),
        ("--max-model-len=131072", "--max-model-len", 131072),
        ("--max_model_len 4096", "--max-model-len", 4096),
        ("--max-model-len -1", "--max-model-len", -1),
        ("--max-model-len auto", "--max-model-len", -1),
        ("--tensor-parallel 2", "--tensor-parallel-size", 2),
        ("-tp 2", "--tensor-parallel-size", 2),
        ("-tp=2", "--tensor-parallel-size", 2),
        ("--device-memory-utilization 0.8", "--gpu-memory-utilization", 0.8),
        ("--no-enable-prefix-caching", "--enable-prefix-caching", False),
        ("--served-model-name a b c", "--served-model-name", ["a", "b", "c"]),
        ('--hf-overrides \'{"a": {"b": 1}}\'', "--hf-overrides", {"a": {"b": 1}}),
        ("--hf-overrides.a.b 1.5 --hf_overrides.a.c=x", "--hf-overrides", {"a": {"b": 1.5, "c": "x"}}),
        ("--hf-overrides.a 8K", "--hf-overrides", {"a": 8192}),
        ("--hf-overrides.a+ 1,2", "--hf-overrides", {"a": ["1", "2"]}),
        ("-O3", "--optimization-level", "3"),
        ("-O 2", "--optimization-level", "2"),
        ("--middleware a --middleware b", "--middleware", ["a", "b"]),
    ],
)
def test_values_as_argparse_reads_them(text: str, name: str, value: Any) -> None:
    assert check(text).parsed[name] == value


def test_the_model_may_stand_anywhere() -> None:
    for text in ("vllm serve m -tp 2", "vllm serve -tp 2 m", "vllm serve --model m -tp 2"):
        assert check_command([text]).model == "m"
    api_server = "python -m vllm.entrypoints.openai.api_server --model m"
    assert check_command([api_server]).model == "m"


def test_lower_case_units_are_thousands() -> None:
    result = check("--max-model-len 128k")
    assert [(f.code, f.severity) for f in result.findings][:-1] == [("unit_suffix", "warning")]
    assert "131072" in result.findings[0].where["fix"]
    assert result.corrected is not None
    assert result.corrected.argv[-2:] == ("--max-model-len", "128000")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("--max-model-len 8Ki", "bad_value"),
        ("--hf-overrides '{bad'", "bad_value"),
        ("--kv-cache-dtype fp7", "bad_value"),
        ("--gpu-memory-utilization 1.5", "bad_value"),
        ("--max-model-len", "bad_value"),
        ("--max 5", "unknown_flag"),
        ("--gpu-memory-utilisation 0.9", "unknown_flag"),
        ("--swap-space 4", "removed_flag"),
        ("--task embed", "removed_flag"),
        ("--hf-overrides {rope_type: yarn}", "unknown_flag"),
        ("--max-num-seqs 64 --max-num-batched-tokens 32", "batched_tokens_too_small"),
    ],
)
def test_what_vllm_stops_at(text: str, code: str) -> None:
    result = check(text)
    assert code in codes(result)
    assert not result.ok
    assert all(finding.where["fix"] for finding in result.findings)


def test_removed_options_were_there_once() -> None:
    assert codes(check("--swap-space 4", version="0.17.1")) == []
    assert codes(check("--swap-space 4", version="0.18.0")) == ["removed_flag"]


def test_dotted_keys_drop_the_json_before_them() -> None:
    """vllm 0.32.0: dotted options become one JSON word of their own, appended last."""
    result = check("--hf-overrides.a 1 --hf-overrides '{\"b\": 2}'")
    assert result.parsed["--hf-overrides"] == {"a": 1}
    assert codes(result) == ["setting_overruled"]


def test_a_misspelling_is_repaired() -> None:
    result = check("--max-model-length 4096 --enforce-eagre")
    assert result.corrected is not None
    assert result.corrected.argv == (
        "vllm", "serve", "org/model", "--max-model-len", "4096", "--enforce-eager",
    )  # fmt: skip


def test_settings_in_a_file_are_not_judged() -> None:
    assert codes(check("--config serve.yaml")) == ["config_file_not_read"]
