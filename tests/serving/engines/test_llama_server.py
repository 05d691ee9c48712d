"""Plans as llama-server arguments."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ropewalk.engines import EngineBuild
from ropewalk.errors import UsageError
from ropewalk.planner.records import DeviceShare, Launch, Plan, PlanRequest, RopeDecision
from ropewalk.serving.engines import launch_of
from ropewalk.serving.engines.llama_cpp.embedded_flags import BY_NAME, parse
from ropewalk.serving.engines.llama_cpp.launch import with_model

LLAMA = EngineBuild(name="llama-server", engine="llama-server", version="11434", path="/usr/bin/llama-server")
MakePlan = Callable[..., Plan]


def spec_of(make_plan: MakePlan, request: PlanRequest, **options: object) -> Launch:
    plan = make_plan(request, checkpoint="/models/Qwen3-8B-Q4_K_M.gguf", **options)
    return launch_of(plan, build=LLAMA)


def flags_of(spec: Launch) -> dict[str, str]:
    """Flags with their values; a switch has none."""
    words = list(spec.argv)
    pairs = zip(words, [*words[1:], ""], strict=True)
    return {word: "" if after.startswith("--") else after for word, after in pairs if word in BY_NAME}


def test_everything_that_changes_the_memory_is_written_out(make_plan: MakePlan) -> None:
    spec = spec_of(make_plan, PlanRequest(context_len=32768, engine="llama-server"))
    assert spec.argv == (
        *("-m", "/models/Qwen3-8B-Q4_K_M.gguf", "-a", "Qwen3-8B-Q4_K_M"),
        *("-c", "32768", "-np", "1", "--no-kv-unified", "-b", "2048", "-ub", "512"),
        *("-ctk", "f16", "-ctv", "f16", "-fa", "auto", "--cache-ram", "0", "--ctx-checkpoints", "0"),
        *("-fit", "off", "-ngl", "0", "--host", "127.0.0.1", "--port", "8080", "--metrics", "-lv", "4"),
    )


def test_the_context_is_multiplied_since_slots_divide_it(make_plan: MakePlan) -> None:
    # ggml-org/llama.cpp#11681: 65,536 tokens for each of four users need -c 262144
    spec = spec_of(make_plan, PlanRequest(context_len=65536, engine="llama-server", num_sequences=4))
    assert flags_of(spec)["-c"] == "262144"
    assert flags_of(spec)["-np"] == "4"
    assert (spec.context_len, spec.served_context_len) == (65536, 65536)


def test_each_slot_is_padded_to_256_cells(make_plan: MakePlan) -> None:
    spec = spec_of(make_plan, PlanRequest(context_len=1000, engine="llama-server", num_sequences=3))
    assert flags_of(spec)["-c"] == str(3 * 1024)
    assert spec.served_context_len == 1024


def test_batches_are_capped_by_the_context_before_it_is_padded(make_plan: MakePlan) -> None:
    flags = flags_of(spec_of(make_plan, PlanRequest(context_len=300, engine="llama-server")))
    assert (flags["-c"], flags["-b"], flags["-ub"]) == ("512", "300", "300")


def test_a_shared_cache_limits_each_slot_to_its_plan(make_plan: MakePlan) -> None:
    request = PlanRequest(context_len=65536, engine="llama-server", num_sequences=4, kv_unified=True)
    spec = spec_of(make_plan, request)
    assert "--kv-unified --kv-unified-per-slot 65536" in " ".join(spec.argv)
    assert flags_of(spec)["-c"] == "262144"
    assert spec.served_context_len == 65536


@pytest.mark.parametrize(
    ("value", "asked", "written"),
    [("f16", "auto", "auto"), ("q8_0", "auto", "on"), ("q8_0", "on", "on"), ("q8_0", "off", "off")],
)
def test_a_quantised_value_cache_asks_for_flash_attention(
    make_plan: MakePlan, value: str, asked: str, written: str
) -> None:
    request = PlanRequest(
        context_len=512,
        engine="llama-server",
        cache_type_v=value,
        flash_attn=asked,  # type: ignore[arg-type]
    )
    assert flags_of(spec_of(make_plan, request))["-fa"] == written


def test_the_rope_flags_of_the_plan_are_passed_on(make_plan: MakePlan) -> None:
    flags = ("--rope-scaling", "yarn", "--rope-scale", "4", "--yarn-orig-ctx", "32768")
    rope = RopeDecision("scale", "yarn", 4.0, 32768, 1.1386, "", "", llama_server_flags=flags)
    spec = spec_of(make_plan, PlanRequest(context_len=131072, engine="llama-server"), rope=rope)
    assert " ".join(flags) in " ".join(spec.argv)


def test_the_rest_of_the_request(make_plan: MakePlan) -> None:
    request = PlanRequest(
        context_len=512,
        engine="llama-server",
        swa_full=True,
        device="cpu",
        cache_ram_bytes=2**30 + 1,
        context_checkpoints=3,
        batch=256,
        ubatch=64,
    )
    flags = flags_of(spec_of(make_plan, request))
    assert "--swa-full" in flags
    assert (flags["-ngl"], flags["--cache-ram"], flags["--ctx-checkpoints"]) == ("0", "1025", "3")
    assert (flags["-b"], flags["-ub"]) == ("256", "64")


@pytest.mark.parametrize(("asked", "written"), [(None, "999"), (7, "7"), (0, "0")])
def test_layers_go_to_the_gpus_of_the_plan(make_plan: MakePlan, asked: int | None, written: str) -> None:
    plan = make_plan(
        PlanRequest(context_len=512, engine="llama-server", gpu_layers=asked), checkpoint="/m.gguf"
    )
    shares = (DeviceShare("gpu:0", 0, 0, 0, None, (0, 1)), DeviceShare("cpu", 0, 0, 0, None, (0, 0)))
    plan = replace(plan, memory=replace(plan.memory, per_device=shares))
    assert flags_of(launch_of(plan, build=LLAMA))["-ngl"] == written


def test_what_drafts_and_a_tower_are_named(make_plan: MakePlan) -> None:
    request = PlanRequest(4096, "llama-server", draft="small.gguf", projector="mmproj.gguf")
    line = " ".join(spec_of(make_plan, request).argv)
    assert "-md small.gguf --spec-type draft-simple --mmproj mmproj.gguf" in line
    assert "--spec-type draft-mtp" in " ".join(
        spec_of(make_plan, PlanRequest(4096, "llama-server", mtp=1)).argv
    )


def test_a_cache_type_that_ggml_has_not(make_plan: MakePlan) -> None:
    with pytest.raises(UsageError, match="no cache type 'fp8'"):
        spec_of(make_plan, PlanRequest(context_len=512, engine="llama-server", cache_type_k="fp8"))


def test_a_refused_plan_is_not_launched(make_plan: MakePlan) -> None:
    rope = RopeDecision("refuse", None, None, None, None, "nobody published 1M for it", "published")
    with pytest.raises(UsageError, match="nobody published 1M for it"):
        spec_of(make_plan, PlanRequest(context_len=2**20, engine="llama-server"), rope=rope)


def test_a_plan_for_another_engine_is_not_launched(make_plan: MakePlan) -> None:
    with pytest.raises(UsageError, match="the plan is for vllm, the engine is llama-server"):
        spec_of(make_plan, PlanRequest(context_len=512, engine="vllm"))


def test_the_command_is_one_line_for_a_shell(make_plan: MakePlan) -> None:
    plan = make_plan(PlanRequest(context_len=512, engine="llama-server"), checkpoint="/my models/a.gguf")
    spec = launch_of(plan, build=LLAMA, port=9999)
    command = spec.command
    assert command.startswith("llama-server -m '/my models/a.gguf' -a a -c 512 ")
    assert shlex.split(command)[1:] == list(spec.argv)


def test_the_embedded_engine_knows_every_flag_that_is_written(make_plan: MakePlan) -> None:
    request = PlanRequest(
        context_len=512,
        engine="llama-server",
        kv_unified=True,
        swa_full=True,
        device="cpu",
        cache_type_v="q4_0",
    )
    plan = make_plan(request, checkpoint="/m.gguf")
    parse(launch_of(plan, build=LLAMA, threads=2).argv)


def test_a_lifted_limit_is_an_override_by_the_key_of_the_architecture(
    make_plan: MakePlan, smollm2: Path
) -> None:
    request = PlanRequest(context_len=16384, engine="llama-server", arm="unscaled")
    plan = make_plan(request, checkpoint=str(smollm2), override_context_len=16384)
    spec = launch_of(plan, build=LLAMA)
    at = spec.argv.index("--override-kv")
    assert spec.argv[at + 1] == "llama.context_length=int:16384"
    assert spec.override_context_len == 16384
    patched = with_model(spec.argv, "/tmp/copy.gguf")
    assert "--override-kv" not in patched
    assert patched[:4] == ("-m", "/tmp/copy.gguf", "-a", "SmolLM2-135M-Instruct.Q4_1")
