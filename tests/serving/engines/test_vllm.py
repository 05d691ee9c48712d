"""Plans as vLLM arguments, and vLLM's log."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ropewalk.engines import EngineBuild
from ropewalk.planner.records import DeviceShare, Memory, Plan, PlanRequest, RopeDecision
from ropewalk.serving.engines import launch_of
from ropewalk.serving.engines.vllm.launch import SCRUBBED_ENVIRONMENT, program
from ropewalk.serving.engines.vllm.log import parse
from ropewalk.units import GIB

MakePlan = Callable[..., Plan]
GPU = EngineBuild(name="vllm", engine="vllm", version="0.33.0", path="/usr/bin/vllm")
CPU = replace(GPU, devices=("cpu",))


def test_a_plan_for_gpus(make_plan: MakePlan) -> None:
    request = PlanRequest(
        context_len=131072,
        engine="vllm",
        num_sequences=4,
        cache_type_k="fp8",
        cache_type_v="fp8",
        tensor_parallel=2,
        pipeline_parallel=2,
        max_batched_tokens=4096,
    )
    spec = launch_of(make_plan(request, checkpoint="Qwen/Qwen3-8B"), build=GPU, port=8000)
    assert spec.argv == (
        *(
            "serve",
            "Qwen/Qwen3-8B",
            "--host",
            "127.0.0.1",
            "--port",
            "8000",
            "--served-model-name",
            "Qwen3-8B",
        ),
        *("--max-model-len", "131072", "--max-num-seqs", "4", "--kv-cache-dtype", "fp8"),
        *("--gpu-memory-utilization", "0.92", "--max-num-batched-tokens", "4096"),
        *("--tensor-parallel-size", "2", "--pipeline-parallel-size", "2", "--enable-prompt-tokens-details"),
    )
    assert spec.env == {}
    assert spec.served_context_len == 131072


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ({"mtp": 1}, {"method": "mtp", "num_speculative_tokens": 1}),
        ({"draft": "/models/small"}, {"model": "/models/small", "num_speculative_tokens": 4}),
    ],
)
def test_what_drafts_is_one_object(
    make_plan: MakePlan, options: dict[str, Any], config: dict[str, Any]
) -> None:
    argv = launch_of(make_plan(PlanRequest(8192, "vllm", **options), checkpoint="m"), build=GPU).argv
    assert json.loads(argv[argv.index("--speculative-config") + 1]) == config


def test_a_hub_id_in_vllms_own_words(make_plan: MakePlan) -> None:
    plan = make_plan(PlanRequest(context_len=8192, engine="vllm"), checkpoint="Qwen/Qwen3-8B@v1.0")
    line = " ".join(launch_of(plan, build=GPU).argv)
    assert line.startswith("serve Qwen/Qwen3-8B --host")
    assert "--served-model-name Qwen3-8B --revision v1.0 --max-model-len" in line


def share(device: str, kv_bytes: int) -> DeviceShare:
    return DeviceShare(device, 0, kv_bytes, kv_bytes, None, (0, 1))


def test_on_a_cpu_the_cache_is_given_in_bytes(make_plan: MakePlan) -> None:
    request = PlanRequest(context_len=8192, engine="vllm")
    plan = make_plan(request, checkpoint="/models/smol")
    memory: Memory = replace(plan.memory, per_device=(share("cpu:0", 500_000_000),))
    spec = launch_of(replace(plan, memory=memory), build=CPU, threads=2)
    line = " ".join(spec.argv)
    assert "--kv-cache-memory-bytes 500000000 --max-num-batched-tokens 2048" in line
    assert "utilization" not in line
    assert spec.env == {"VLLM_CPU_OMP_THREADS_BIND": "0-1"}
    assert spec.command.startswith("VLLM_CPU_OMP_THREADS_BIND=0-1 vllm serve /models/smol ")


def test_the_bytes_are_those_of_the_rank_that_holds_most(make_plan: MakePlan) -> None:
    """The flag is each rank's own, and all take the fewest blocks."""
    plan = make_plan(PlanRequest(2048, "vllm", pipeline_parallel=2), checkpoint="/models/smol")
    memory: Memory = replace(plan.memory, per_device=(share("cpu:0", 200), share("cpu:1", 100)))
    argv = launch_of(replace(plan, memory=memory), build=CPU).argv
    assert argv[argv.index("--kv-cache-memory-bytes") + 1] == "200"


def test_every_way_to_cut_a_model(make_plan: MakePlan) -> None:
    """Sequences are per replica; the layer partition has no flag."""
    request = PlanRequest(
        4096,
        "vllm",
        num_sequences=5,
        tensor_parallel=4,
        pipeline_parallel=2,
        data_parallel=2,
        expert_parallel=True,
        decode_context_parallel=2,
        layer_partition=(20, 10),
        block_size=32,
    )
    spec = launch_of(make_plan(request, checkpoint="org/moe"), build=GPU)
    line = " ".join(spec.argv)
    assert "--max-num-seqs 3 --block-size 32" in line
    assert (
        "--tensor-parallel-size 4 --pipeline-parallel-size 2 --data-parallel-size 2 "
        "--decode-context-parallel-size 2 --enable-expert-parallel" in line
    )
    assert spec.env == {"VLLM_PP_LAYER_PARTITION": "20,10"}
    assert spec.command.startswith("VLLM_PP_LAYER_PARTITION=20,10 vllm serve ")


def test_the_override_is_one_word_and_quoted_for_the_shell(make_plan: MakePlan) -> None:
    overrides = {
        "max_position_embeddings": 131072,
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000, "factor": 4.0},
    }
    rope = RopeDecision("scale", "yarn", 4.0, 32768, 1.0, "", "", vllm_hf_overrides=overrides)
    plan = make_plan(PlanRequest(context_len=131072, engine="vllm"), checkpoint="Qwen/Qwen3-8B", rope=rope)
    spec = launch_of(plan, build=GPU)
    word = spec.argv[spec.argv.index("--hf-overrides") + 1]
    assert json.loads(word) == overrides
    assert shlex.split(spec.command)[1:] == list(spec.argv)


def test_an_interpreter_runs_the_module() -> None:
    assert program(GPU) == ("/usr/bin/vllm",)
    assert program(replace(GPU, path="/env/bin/python3.12"))[1:] == ("-P", "-m", "vllm.entrypoints.cli.main")


@pytest.mark.parametrize("name", ["VLLM_CPU_KVCACHE_SPACE", "VLLM_ALLOW_LONG_MAX_MODEL_LEN"])
def test_variables_that_overrule_flags_are_not_passed_on(name: str) -> None:
    assert SCRUBBED_ENVIRONMENT.match(name)
    assert not SCRUBBED_ENVIRONMENT.match("VLLM_TARGET_DEVICE")


def test_sizes_in_the_log() -> None:
    # vLLM 0.32.0 on a CPU, --gpu-memory-utilization 0.2
    lines = [
        "INFO 11-30 [gpu_model_runner.py:1] Model loading took 0.25 GiB memory and 1.2 seconds",
        "Auto set (3.63/23.54) GiB for KV cache on node 0, with 4.71 GiB requested memory for the worker.",
    ]
    weights, cache = parse(lines)
    assert (weights.name, weights.bytes) == ("weights", GIB // 4)
    assert (cache.name, cache.bytes, cache.rounding_bytes) == ("kv_cache", round(3.63 * GIB), 5_368_710)


def test_each_rank_prints_its_own() -> None:
    lines = [f"(Worker_TP{rank}) Available KV cache memory: 7.50 GiB" for rank in range(2)]
    assert [(buffer.device, buffer.bytes) for buffer in parse(lines)] == [
        ("rank 0", 7.5 * GIB),
        ("rank 1", 7.5 * GIB),
    ]
