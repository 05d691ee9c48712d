"""llama-server commands resolved: the tables of a real server, and public reports of what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.checking.conftest import ROOMY

from ropewalk.checking import CheckResult, check_command
from ropewalk.inspector.layer_kinds import NoCache
from ropewalk.inspector.records import Inspection

Gguf = Callable[..., Inspection]


def check(text: str, inspection: Inspection | None = None, version: str | None = None) -> CheckResult:
    command = f"llama-server -m x.gguf -cram 0 {text}"
    return check_command([command], inspection=inspection, engine_version=version, machine=ROOMY)


def codes(result: CheckResult) -> dict[str, str]:
    return {finding.code: finding.severity for finding in result.findings}


def repaired(result: CheckResult) -> str:
    assert result.corrected is not None
    return result.corrected.command.removeprefix("llama-server -m x.gguf -cram 0 ")


@pytest.mark.parametrize(
    ("flags", "slot_len"),
    [
        ("-c 16384", 8192),
        ("-c 16384 --rope-scaling yarn --rope-scale 2", 16384),
        ("-c 16384 --rope-scaling yarn --rope-scale 2 --yarn-orig-ctx 8192", 16384),
        ("-c 32768 --rope-scaling yarn --rope-scale 4", 32768),
        ("-c 32768 --rope-scaling yarn --rope-scale 2", 16384),
        ("-c 16384 --rope-scaling yarn --rope-scale 2 --yarn-orig-ctx 4096", 8192),
        ("-c 16384 --rope-scaling yarn", 8192),
        ("-c 16384 --rope-scaling linear --rope-scale 2", 8192),
        ("-c 16384 --rope-scale 2", 8192),
        ("-c 16384 --rope-freq-scale 0.5", 8192),
        ("-c 16384 --rope-freq-base 400000", 8192),
        ("-c 16384 --rope-scaling none --rope-scale 2", 8192),
        ("-c 16384 --override-kv llama.context_length=int:16384", 16384),
        ("-c 0 --rope-scaling yarn --rope-scale 2", 16384),
        ("--rope-scaling yarn --rope-scale 2", 16384),
        ("--rope-scaling yarn --rope-scale 2 -fit off", 8192),
    ],
)
def test_usable_context_of_smollm2(flags: str, slot_len: int, smollm2_gguf: Inspection) -> None:
    """What /props and /slots of a real server said (llama.cpp b11434, SmolLM2-135M-Instruct)."""
    result = check(f"-np 1 {flags}", smollm2_gguf)
    assert result.resolved.context_per_request == slot_len


def test_gemma3_is_lifted_on_its_full_layers(gguf: Gguf) -> None:
    metadata = {"general.architecture": "gemma3", "gemma3.context_length": 32768}
    gemma = gguf(metadata, ((3, 1, 256, None), (15, 1, 256, 512)), heads=4)
    assert check("-np 1 -c 65536", gemma).resolved.context_per_request == 32768
    flags = "--rope-scaling yarn --rope-scale 2 --yarn-orig-ctx 32768"
    assert check(f"-np 1 -c 65536 {flags}", gemma).resolved.context_per_request == 65536


# --- cases ------------------------------------------------------------------------------------------------


@pytest.fixture
def llama_gguf(gguf: Gguf) -> Inspection:
    """Trained for 131,072 tokens: 32 layers of 8 KV heads of 128."""
    return gguf({"general.architecture": "llama", "llama.context_length": 131072}, ((32, 8, 128, None),))


def test_parallel_divides_the_context(llama_gguf: Inspection) -> None:
    """ggml-org/llama.cpp#11681: four users who need 65,536 tokens each get 16,384."""
    wrong = check("-c 65536 -np 4", llama_gguf)
    assert (wrong.resolved.context_per_request, wrong.resolved.num_sequences) == (16384, 4)
    assert codes(wrong) == {"slot_context_divided": "warning"}
    assert wrong.findings[0].where["fix"].startswith("-c 262144")
    assert repaired(wrong) == "-c 65536 -np 4 --kv-unified"
    right = check("-c 262144 -np 4", llama_gguf)
    assert (right.resolved.context_per_request, right.resolved.kv_cells) == (65536, 262144)
    assert codes(right) == {"slot_context_divided": "info"}, (
        "a total beyond the trained length is meant as one"
    )
    assert "-c" not in right.findings[0].where["fix"].split()
    limited = check("-c 262144 -np 4 --kv-unified --kv-unified-per-slot 65536", llama_gguf)
    assert (limited.resolved.context_per_request, limited.resolved.kv_cells) == (65536, 262144)
    assert codes(limited) == {"pool_shared": "info"}


def test_four_slots_share_one_cache_by_default(llama_gguf: Inspection) -> None:
    """ggml-org/llama.cpp#23652: four prompts of 40,000 tokens do not fit 131,072 cells."""
    result = check("-c 131072", llama_gguf)
    resolved = result.resolved
    assert (resolved.num_sequences, resolved.context_per_request) == (4, 131072)
    assert resolved.kv_cells == 131072 < 4 * 40000
    assert resolved.kv_bytes == 17179869184
    assert codes(result) == {"pool_shared": "warning"}
    assert "-np 1" in result.findings[0].where["fix"]


def test_a_context_above_the_trained_one_is_reserved_and_not_served(llama_gguf: Inspection) -> None:
    """ggml-org/llama.cpp#22140: half of 34,359,738,368 bytes is dead."""
    result = check("-c 262144 -np 1", llama_gguf)
    assert result.resolved.context_per_request == 131072
    assert result.resolved.kv_bytes == 34359738368
    assert codes(result)["slot_context_capped"] == "error"
    assert result.findings[0].where["dead_cells"] == 131072
    assert check("-c 131072 -np 1", llama_gguf).resolved.kv_bytes == 17179869184
    assert repaired(result) == "-c 262144 -np 1 --rope-scaling yarn --rope-scale 2 --yarn-orig-ctx 131072"


def test_a_shared_pool_above_the_trained_context_is_of_use(llama_gguf: Inspection) -> None:
    result = check("-c 262144 -np 4 -kvu", llama_gguf)
    assert codes(result)["slot_context_capped"] == "warning"
    assert result.ok


def test_yarn_of_a_gguf_without_scaling(qwen3_gguf: Inspection) -> None:
    """ggml-org/llama.cpp#28030: the flags lift the trained context; the original length must be told."""
    right = check("-c 131072 -np 1 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768", qwen3_gguf)
    assert (right.resolved.derived_max_len, right.resolved.context_per_request) == (131072, 131072)
    assert codes(right) == {"short_text_degradation": "warning"}
    wrong = check("-c 131072 -np 1 --rope-scaling yarn --rope-scale 4", qwen3_gguf)
    assert wrong.resolved.derived_max_len == 163840
    assert wrong.resolved.rope is not None
    assert wrong.resolved.rope["original_max_position_embeddings"] == 40960
    assert codes(wrong)["rope_original_missing"] == "error"
    assert repaired(wrong).endswith("--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768")


def test_builds_before_28030_need_an_override_as_well(qwen3_gguf: Inspection) -> None:
    flags = "-c 131072 -np 1 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768"
    old = check(flags, qwen3_gguf, version="b8850")
    assert old.resolved.context_per_request == 40960
    assert repaired(old) == f"{flags} --override-kv qwen3.context_length=int:131072"


def test_other_overrides_of_the_metadata_are_kept(qwen3_gguf: Inspection) -> None:
    kept = "tokenizer.ggml.add_bos_token=bool:false"
    old = check(f"-c 131072 -np 1 --override-kv {kept}", qwen3_gguf, version="b8850")
    assert f"--override-kv {kept},qwen3.context_length=int:131072" in repaired(old)


def test_context_alone_is_repaired_by_the_publishers_rule(qwen3_gguf: Inspection) -> None:
    flags = "--rope-scaling yarn --rope-scale 2 --yarn-orig-ctx 32768"
    assert repaired(check("-c 65536 -np 1", qwen3_gguf)) == f"-c 65536 -np 1 {flags}"
    beyond = check("-c 200000 -np 1", qwen3_gguf)
    assert repaired(beyond).startswith("-c 131072 -np 1 --rope-scaling yarn --rope-scale 4 ")


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ("-ctk q8_0 -ctv q8_0 -fa off", "cache_type_needs_flash_attention"),
        ("-ctk q8_0 -ctv q8_0", None),
        ("-ctk q8_0 -fa off", None),
    ],
)
def test_quantised_caches_and_flash_attention(flags: str, code: str | None, llama_gguf: Inspection) -> None:
    """ggml-org/llama.cpp#28524, measured: K alone needs none, ``auto`` switches it on for V."""
    result = check(f"-c 8192 -np 1 {flags}", llama_gguf)
    assert list(codes(result)) == ([code] if code else [])


def test_latent_attention_needs_one_cache_type(gguf: Gguf) -> None:
    metadata = {"general.architecture": "deepseek2", "deepseek2.context_length": 163840}
    deepseek = gguf(metadata, ((61, 1, 576, None),), heads=128)
    result = check("-c 32768 -np 1 -ctk q8_0", deepseek)
    assert codes(result)["cache_types_differ"] == "error"
    assert repaired(result) == "-c 32768 -np 1 -ctk q8_0 -ctv q8_0"
    fixed = check("-c 32768 -np 1 -ctk q8_0 -ctv q8_0", deepseek)
    assert fixed.resolved.kv_bytes == 1223294976  # 61 * 612 * 32768, as a published log prints


def test_blocks_must_divide_the_heads(gguf: Gguf) -> None:
    metadata = {"general.architecture": "phi3", "phi3.context_length": 131072}
    narrow = gguf(metadata, ((32, 8, 80, None),))
    result = check("-c 4096 -np 1 -ctk q8_0 -ctv q8_0 -fa on", narrow)
    assert codes(result) == {"cache_type_block_size": "error"}
    assert repaired(result) == "-c 4096 -np 1 -ctk f16 -ctv f16 -fa on"
    assert check("-c 4096 -np 1 -ctk q8_0 -fa off", narrow).ok


# --- rope flags -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "code", "severity"),
    [
        ("-c 8192 --rope-scaling yarn", "rope_scaling_inactive", "error"),
        ("-c 8192 --rope-scaling none --rope-scale 2", "rope_scaling_inactive", "warning"),
        ("-c 8192 --yarn-orig-ctx 4096", "rope_scaling_inactive", "warning"),
        (
            "-c 16384 --rope-scaling yarn --rope-scale 2 --yarn-attn-factor 1.2",
            "rope_scaling_inactive",
            "warning",
        ),
        ("-c 8192 --rope-scale 2", "short_text_degradation", "warning"),
        ("-c 8192 --rope-scaling yarn --rope-scale 2", "short_text_degradation", "warning"),
        ("-c 16384 --override-kv llama.context_length=int:16384", "context_over_trained", "warning"),
        ("-c 16384 --rope-scaling yarn --rope-scale 2", "beyond_published_context", "warning"),
    ],
)
def test_rope_flags_that_do_less_or_more_than_meant(
    flags: str, code: str, severity: str, smollm2_gguf: Inspection
) -> None:
    assert codes(check(f"-np 1 {flags}", smollm2_gguf)).get(code) == severity


def test_a_smaller_factor_is_named(qwen3_gguf: Inspection) -> None:
    flags = "-c 65536 -np 1 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768"
    result = check(flags, qwen3_gguf)
    assert codes(result) == {"short_text_degradation": "warning"}
    assert result.findings[0].where == {
        "flag": "--rope-scale", "factor": 4.0, "smallest": 2.0, "fix": "factor 2",
    }  # fmt: skip


def test_flags_on_top_of_a_scaling_of_the_checkpoint(gguf: Gguf) -> None:
    metadata = {
        "general.architecture": "qwen3",
        "qwen3.context_length": 131072,
        "qwen3.rope.scaling.type": "yarn",
        "qwen3.rope.scaling.factor": 4.0,
        "qwen3.rope.scaling.original_context_length": 32768,
    }
    carries = gguf(metadata, ((36, 8, 128, None),))
    assert "context_scaled_twice" not in codes(check("-c 131072 -np 1", carries))
    result = check("-c 131072 -np 1 --rope-scale 8", carries)
    assert codes(result)["context_scaled_twice"] == "error"
    assert repaired(result) == "-c 131072 -np 1"


# --- memory beside the cache ------------------------------------------------------------------------------


def test_the_prompt_cache_that_nobody_asked_for(llama_gguf: Inspection) -> None:
    command = "llama-server -m x.gguf -np 1 -c 4096"
    default = check_command([command], inspection=llama_gguf)
    assert codes(default)["prompt_cache_memory"] == "warning"
    assert default.resolved.host_cache_bytes == 8192 * 1024**2
    assert codes(check_command([f"{command} -cram 512"]))["prompt_cache_memory"] == "info"
    assert "prompt_cache_memory" not in codes(check("-np 1 -c 4096", llama_gguf))


def test_checkpoints_of_windows_are_counted(gguf: Gguf) -> None:
    """Gemma-3-27B: a checkpoint holds 624 MiB of window cells; 32 per slot by default."""
    metadata = {"general.architecture": "gemma3", "gemma3.context_length": 131072}
    gemma = gguf(metadata, ((10, 16, 128, None), (52, 16, 128, 1024)))
    result = check("-np 1 -c 131072", gemma)
    assert result.resolved.kv_bytes == 11391729664
    assert result.resolved.host_cache_bytes == 32 * 624 * 1024**2


@pytest.mark.parametrize(
    ("flags", "kv_bytes"),
    [
        ("-c 131072 -np 1", 11391729664),
        ("-c 131072", 12700352512),
        ("-c 131072 -np 1 --swa-full", 66571993088),
        ("-c 131072 -np 4", 13354663936),
    ],
)
def test_window_caches_depend_on_slots(flags: str, kv_bytes: int, gguf: Gguf) -> None:
    """LostRuins/koboldcpp#2235: Gemma-3-27B in f16 with a ubatch of 512."""
    metadata = {"general.architecture": "gemma3", "gemma3.context_length": 131072}
    gemma = gguf(metadata, ((10, 16, 128, None), (52, 16, 128, 1024)))
    assert check(flags, gemma).resolved.kv_bytes == kv_bytes


def test_a_context_that_is_not_given(smollm2_gguf: Inspection) -> None:
    unset = check("-np 1", smollm2_gguf)
    assert (unset.resolved.kv_cells, codes(unset)) == (8192, {"context_may_shrink": "info"})
    zero = check("-np 1 -c 0", smollm2_gguf)
    assert (zero.resolved.kv_cells, codes(zero)) == (8192, {"context_from_checkpoint": "info"})
    assert check("-np 1").resolved.kv_cells is None


def test_division_rounds_up(smollm2_gguf: Inspection) -> None:
    """Measured: ``-c 512 -np 4`` reserves 1,024 cells."""
    resolved = check("-c 512 -np 4", smollm2_gguf).resolved
    assert (resolved.context_per_request, resolved.kv_cells, resolved.kv_bytes) == (256, 1024, 23592960)


# --- devices ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "devices"),
    [
        ("-ngl 99", ["gpu:0", "cpu"]),
        ("--n-cpu-moe 4", ["gpu:0", "cpu"]),
        ("-ts 3,1", ["gpu:0", "gpu:1", "cpu"]),
        ("--device CUDA0,CUDA1", ["gpu:0", "gpu:1", "cpu"]),
        ("-ngl 0", ["cpu"]),
        ("--device none", ["cpu"]),
        ("", ["cpu"]),
    ],
)
def test_the_devices_that_a_command_names_are_planned(
    flags: str, devices: list[str], llama_gguf: Inspection
) -> None:
    result = check_command([f"llama-server -m x.gguf -c 8192 -np 1 {flags}"], inspection=llama_gguf)
    assert result.resolved.memory is not None
    assert [share.device for share in result.resolved.memory.per_device] == devices


def test_what_fit_leaves_alone(llama_gguf: Inspection) -> None:
    """ggml-org/llama.cpp#27872: with a placement and a length given, --fit gives up."""
    result = check("-c 8192 -np 1 --cpu-moe -fit on", llama_gguf)
    assert codes(result)["flag_without_effect"] == "warning"
    assert "flag_without_effect" not in codes(check("-c 8192 -np 1 --cpu-moe", llama_gguf))
    floor = check("-np 1 --fit-ctx 65536", llama_gguf)
    assert (floor.findings[0].code, floor.findings[0].where["floor"]) == ("context_may_shrink", 65536)


@pytest.mark.parametrize(
    ("flags", "version", "severity"),
    [
        ("-ctv q4_0 -ngl 99", "b10791", "error"),
        ("-ctv q4_0", "b10791", "warning"),
        ("-ctk q8_0 -ctv q8_0 -ngl 99", "b10791", None),
        ("-ctk q5_1 -ctv q5_1 -ngl 99", "b10791", "error"),
        ("-ctv q4_0 -ngl 99", "b11434", None),
        ("-ctv q4_0 -ngl 0", "b10791", None),
    ],
)
def test_cuda_has_not_every_kernel(
    flags: str, version: str, severity: str | None, llama_gguf: Inspection
) -> None:
    """ggml-org/llama.cpp#28524: K in f16 with V in q4_0 stops the server."""
    result = check(f"-c 8192 -np 1 {flags}", llama_gguf, version=version)
    assert codes(result).get("cache_type_needs_flash_attention") == severity
    keys = check("-c 8192 -np 1 -ctk q8_0 -ngl 99", llama_gguf, version="b10791")
    assert codes(keys) == {"flash_attention_off": "warning"}
    assert repaired(keys).endswith("-ctk q8_0 -ngl 99 -ctv q8_0")
    on_cpu = check("-c 8192 -np 1 -ctk q8_0 -ctv q8_0 -ngl 0", llama_gguf)
    assert codes(on_cpu) == {"cache_type_slow": "warning"}


def test_an_empty_variable_is_read_as_a_number() -> None:
    result = check_command(["LLAMA_ARG_N_CPU_MOE= llama-server -m x.gguf -np 1 -c 4096"])
    assert codes(result)["bad_value"] == "error"
    assert result.corrected is not None
    assert result.corrected.command == "llama-server -m x.gguf -np 1 -c 4096"


def test_overrides_of_tensors_add_up() -> None:
    result = check("-np 1 -c 4096 -ot exps=CPU -ot attn=CPU")
    assert result.parsed["--override-tensor"] == "exps=CPU,attn=CPU"
    assert "setting_overruled" not in codes(result)


def test_a_type_of_a_fork_is_replaced_by_one_of_as_many_bits() -> None:
    result = check("-np 1 -c 4096 -ctk turbo4 -ctv turbo4")
    assert repaired(result).endswith("--cache-type-k q4_0 --cache-type-v q4_0")


def test_an_encoder_serves_no_text(gguf: Gguf) -> None:
    metadata = {"general.architecture": "bert", "bert.context_length": 512}
    encoder = gguf(metadata, ((12, 12, 64, None),), heads=12)
    bert = replace(encoder, layers=(NoCache(tuple(range(12))),))
    assert codes(check("-c 512 -np 1", bert))["encoder_only"] == "error"
    assert "encoder_only" not in codes(check("-c 512 -np 1 --embedding", bert))
