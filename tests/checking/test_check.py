"""The record, and what holds for every command: a corrected one is found to be without error."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.checking.conftest import ROOMY

from ropewalk import jsonio
from ropewalk.checking import CheckResult, check_command, model_source
from ropewalk.errors import UsageError
from ropewalk.inspector.records import Inspection

Gguf = Callable[..., Inspection]
Config = Callable[..., Inspection]

LLAMA_WORDS = st.sampled_from(
    [
        ("-c", "128k"), ("-c", "200000"), ("-c", "65536"), ("--ctx-size=8192",), ("-np", "4"), ("-np", "1"),
        ("-kvu",), ("-fa",), ("-fa", "off"), ("-ctv", "q8_0"), ("-ctk", "q4_0"), ("--mlock",),
        ("--swa-full",),
        ("--rope-scaling", "yarn"), ("--rope-scaling", "none"), ("--rope-scale", "4"), ("--rope-scale", "2"),
        ("--yarn-orig-ctx", "32768"), ("--yarn-orig-ctx", "40960"), ("--rope-freq-scale", "0.5"),
        ("--cache-ram", "8G"), ("--kv-unified-per-slot", "32768"), ("--ctx-sise", "512"), ("--no-such-flag",),
    ]
)  # fmt: skip
BLOCKS: list[dict[str, Any]] = [
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
    {"type": "yarn", "factor": 2},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "linear", "factor": 2},
    {"rope_type": "yarn", "factor": 3.2, "original_max_position_embeddings": 40960, "rope_theta": 1000000},
]
OVERRIDES = st.one_of(
    st.sampled_from(BLOCKS).map(lambda block: {"rope_parameters": block}),
    st.sampled_from(BLOCKS).map(lambda block: {"rope_scaling": block, "max_position_embeddings": 131072}),
    st.sampled_from(BLOCKS).map(lambda block: {"text_config": {"rope_parameters": block}}),
    st.just({"max_model_len": 65536}),
)
VLLM_WORDS = st.one_of(
    OVERRIDES.map(lambda value: ("--hf-overrides", json.dumps(value))),
    st.sampled_from(BLOCKS).map(lambda block: ("--rope-scaling", json.dumps(block))),
    st.sampled_from(
        [
            ("--max-model-len", "65536"), ("--max-model-len", "200000"), ("--max-model-len", "128k"),
            ("--max-model-len", "auto"), ("-tp", "3"), ("--swap-space", "4"), ("--disable-log-requests",),
            ("--kv-cache-memory-bytes", "1000000000"), ("--gpu-memory-utilization", "1.5"),
            ("--max-model", "4096"),
        ]
    ),
)  # fmt: skip
FEW = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def judged_well(result: CheckResult, inspection: Inspection) -> None:
    assert result.ok is all(finding.severity != "error" for finding in result.findings)
    assert all(finding.where["fix"] for finding in result.findings)
    if result.corrected is not None:
        again = check_command(result.corrected.argv, inspection=inspection, machine=ROOMY)
        assert again.ok, again.findings
        assert check_command([result.corrected.command], inspection=inspection, machine=ROOMY) == again


@FEW
@given(words=st.lists(LLAMA_WORDS, max_size=5))
def test_a_corrected_llama_server_command_is_right(
    words: list[tuple[str, ...]], qwen3_gguf: Inspection
) -> None:
    argv = ["llama-server", "-m", "x.gguf", *(word for group in words for word in group)]
    judged_well(check_command(argv, inspection=qwen3_gguf, machine=ROOMY), qwen3_gguf)


@FEW
@given(words=st.lists(VLLM_WORDS, max_size=4), name=st.sampled_from(["qwen3-8b", "qwen3-vl-8b", "phi3-mini"]))
def test_a_corrected_vllm_command_is_right(words: list[tuple[str, ...]], name: str, config: Config) -> None:
    inspection = config(name)
    argv = ["vllm", "serve", "model", *(word for group in words for word in group)]
    judged_well(check_command(argv, inspection=inspection, machine=ROOMY), inspection)


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
KEYS = st.sampled_from(
    ["rope_parameters", "rope_scaling", "rope_type", "type", "factor", "original_max_position_embeddings",
     "rope_theta", "max_position_embeddings", "model_max_length", "text_config", "full_attention"]
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4)
)


@FEW
@given(overrides=ANYTHING, name=st.sampled_from(["qwen3-8b", "qwen3-vl-8b", "phi3-mini"]))
def test_any_override_is_judged_without_a_traceback(overrides: Any, name: str, config: Config) -> None:
    argv = ["vllm", "serve", "model", "--hf-overrides", json.dumps(overrides), "--max-model-len", "65536"]
    result = check_command(argv, inspection=config(name))
    assert json.loads(jsonio.dumps(result))["engine"] == "vllm"


@FEW
@given(words=st.lists(st.text(max_size=8), max_size=4))
def test_any_words_are_judged_without_a_traceback(words: list[str], qwen3_gguf: Inspection) -> None:
    for flag in ("-c", "-np", "--rope-scale", "--override-kv", "--max-model-len"):
        for engine in (["llama-server"], ["vllm", "serve", "m"]):
            try:
                check_command([*engine, flag, *words], inspection=qwen3_gguf)
            except UsageError:  # a word that is the shell's
                assert set(words) & {"|", ";", "&", ">", "<"}


def test_the_record_goes_to_json_and_back(qwen3_gguf: Inspection) -> None:
    result = check_command(["llama-server -m x.gguf -c 128k -np 2"], inspection=qwen3_gguf)
    data = json.loads(jsonio.dumps(result))
    assert data["schema"] == "ropewalk.check/1"
    assert data["resolved"]["context_per_request"] == 256
    assert data["corrected"]["argv"][0] == "llama-server"
    assert jsonio.loads(CheckResult, jsonio.dumps(result)) == result
    assert jsonio.schema_of(CheckResult)["title"] == "CheckResult"


def test_a_command_that_is_right_is_left_alone(smollm2_gguf: Inspection) -> None:
    command = "llama-server -m 'my model.gguf' -c 8192 -np 1 -cram 0"
    result = check_command([command], inspection=smollm2_gguf, machine=ROOMY)
    assert (result.ok, result.findings) == (True, ())
    assert result.corrected is not None
    assert not result.corrected.changed
    assert result.corrected.command == "llama-server -m 'my model.gguf' -c 8192 -np 1 -cram 0"


def test_the_version_of_a_container_counts(config: Config) -> None:
    command = (
        "docker run --gpus all -v /m:/m vllm/vllm-openai:v0.29.0 --model /m/qwen3 --max-model-len 131072 "
        '--hf-overrides \'{"rope_parameters":{"rope_type":"yarn","rope_theta":1000000,"factor":4.0,'
        '"original_max_position_embeddings":32768}}\''
    )
    old = check_command([command], inspection=config("qwen3-8b"), machine=ROOMY)
    assert (old.ok, old.engine_version, old.rules_version) == (True, "0.29.0", "0.32.0")
    new = check_command([command], inspection=config("qwen3-8b"), engine_version="0.32.0", machine=ROOMY)
    assert not new.ok
    assert new.corrected is not None
    assert new.corrected.argv[:3] == ("docker", "run", "--gpus")


@pytest.mark.parametrize(
    ("command", "source"),
    [
        ("vllm serve Qwen/Qwen3-8B -tp 2", "Qwen/Qwen3-8B"),
        ("vllm serve -tp 2 ./folder", "./folder"),
        ("python -m vllm.entrypoints.openai.api_server --model=./folder", "./folder"),
        ("llama-server -c 4096 -m ./x.gguf", "./x.gguf"),
        ("LLAMA_ARG_MODEL=./x.gguf llama-server", "./x.gguf"),
        ("llama-server -hf org/model:Q4_K_M", "org/model:Q4_K_M"),
        ("llama-server --port 8080", None),
        ("docker run ghcr.io/ggml-org/llama.cpp:server -m /models/x.gguf", None),
    ],
)
def test_what_a_command_serves(command: str, source: str | None) -> None:
    assert model_source([command]) == source


def test_other_programs_are_refused() -> None:
    for command in ("llama-cli -m x.gguf", "ollama serve", "vllm bench latency"):
        with pytest.raises(UsageError):
            check_command([command])


def test_a_checkpoint_that_tells_too_little_is_still_judged(gguf: Gguf, config: Config) -> None:
    inspection = config("qwen3-8b", hidden_size=4096)
    inspection.facts.pop("vocab_size")
    result = check_command(["vllm serve x --max-model-len 65536"], inspection=inspection)
    assert {"memory_unknown", "context_over_trained"} <= {finding.code for finding in result.findings}
    assert result.resolved.kv_bytes is None
