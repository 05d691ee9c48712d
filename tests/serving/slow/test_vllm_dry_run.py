"""vLLM's own checks and cache planning beside ours: one interpreter answers all questions of a test.

Nothing is served: models are configs of published checkpoints without weights, and minutes are the imports.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk import core
from ropewalk.checking.check import check_command
from ropewalk.engines import EngineBuild
from ropewalk.planner.machine import Machine
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan
from ropewalk.serving.dry_run import confirmed
from ropewalk.serving.engines import launch_of
from ropewalk.serving.engines.vllm.dry_run import ask_many, read_answer

pytestmark = pytest.mark.slow

MODELS = (
    "meta-llama--Llama-3.1-8B",  # grouped queries
    "google--gemma-3-1b-it",  # windows and full attention in one pool
    "google--gemma-2-2b",
    "mistralai--Mistral-7B-v0.1",  # windows alone
    "microsoft--Phi-3.5-mini-instruct",  # LongRoPE
    "HuggingFaceTB--SmolLM3-3B",  # layers without rope
    "deepseek-ai--DeepSeek-V2-Lite",  # latent attention, experts
    "Qwen--Qwen3-30B-A3B-Instruct-2507",  # experts
)
SHAPES: tuple[dict[str, Any], ...] = (
    {"context_len": 8192},
    {"context_len": 32768, "num_sequences": 3, "cache_type_k": "fp8", "cache_type_v": "fp8"},
)
SMALL = ("--kv-cache-memory-bytes", "100000000")
BIG = ("--kv-cache-memory-bytes", "1000000000")
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192, "rope_theta": 1e5}


def overrides(rope: dict[str, Any], **more: Any) -> tuple[str, str]:
    return "--hf-overrides", json.dumps({"rope_parameters": rope, **more})


def test_pools_and_weights_of_published_models(vllm: EngineBuild, shared: Path, tmp_path: Path) -> None:
    plans: list[tuple[str, Plan]] = []
    questions = []
    for model in MODELS:
        folder = tmp_path / model
        folder.mkdir()
        shutil.copyfile(shared / "corpus" / "configs" / f"{model}.json", folder / "config.json")
        for shape in SHAPES:
            plan = core.plan(
                folder, engine="vllm", device="cpu", arm="unscaled", allow_unvalidated=True, **shape
            )
            argv = launch_of(plan, build=vllm).argv
            questions.append({"argv": argv[1:], "available": plan.memory.kv.reserved_bytes})
            plans.append((f"{model} {shape['context_len']}", plan))
    told = {}
    for (name, plan), answer in zip(plans, ask_many(vllm, questions, env={}), strict=True):
        after = confirmed(plan, read_answer(answer, vllm))
        told[name] = [f.message for f in after.findings if f.code in ("dry_run_differs", "engine_refuses")]
    assert told == {name: [] for name, _ in plans}


CACHE = 200_000_000
# google/gemma-3-270m, beside the config of its larger sister.
GEMMA_270M = {"hidden_size": 640, "intermediate_size": 2048, "num_hidden_layers": 18}
STAGES: tuple[tuple[str, int, list[int], list[int], int], ...] = (
    # model, tokens per block, blocks per stage, memory of each stage's cache, blocks of the pool
    ("smollm2", 32, [30], [CACHE], 271),
    ("smollm2", 32, [15, 15], [CACHE, CACHE], 542),
    ("smollm2", 32, [20, 10], [CACHE, CACHE], 406),
    ("smollm2", 32, [20, 10], [2 * CACHE, CACHE], 813),
    ("gemma-3-270m", 128, [18], [CACHE], 508),
    ("gemma-3-270m", 128, [9, 9], [CACHE] * 2, 762),
    ("gemma-3-270m", 128, [12, 6], [CACHE] * 2, 762),
    ("gemma-3-270m", 128, [6, 6, 6], [CACHE] * 3, 1525),
)


def test_pools_over_stages(vllm: EngineBuild, smollm2_hf: Path, shared: Path, tmp_path: Path) -> None:
    """vLLM's own planner with the layers of each stage, beside a plan with as much memory for each cache."""
    folders = {"smollm2": smollm2_hf, "gemma-3-270m": tmp_path}
    config = json.loads((shared / "corpus" / "configs" / "google--gemma-3-1b-it.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | GEMMA_270M))
    questions = []
    for name, block, partition, sizes, _ in STAGES:
        flags = ("--max-model-len", "2048", "--block-size", str(block), "--max-num-batched-tokens", "2048")
        argv = [str(folders[name]), *flags]
        questions.append({"argv": argv, "available": sizes, "partition": partition})
    answers = ask_many(vllm, questions, env={})
    for (name, block, partition, sizes, blocks), answer in zip(STAGES, answers, strict=True):
        assert answer.get("num_blocks") == blocks, answer
        plan = core.plan(
            folders[name],
            context_len=2048,
            engine="vllm",
            device="cpu",
            block_size=block,
            max_batched_tokens=2048,
            pipeline_parallel=len(partition),
            layer_partition=tuple(partition),
            nodes=len(partition),
        )
        beside = [(share.high_bytes or 0) - share.kv_bytes for share in plan.memory.per_device]
        memory = tuple(size + other for size, other in zip(sizes, beside, strict=True))
        again = make_plan(core.inspect(folders[name]), replace(plan.request, node_memory_bytes=memory))
        places = [share.place for share in again.memory.per_device if share.place]
        assert min((place.blocks or 0 for place in places), default=blocks) == blocks


REFUSED: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("--max-model-len", "9000", *BIG),
        "User-specified max_model_len (9000) is greater than the derived max_model_len",
        "context_over_trained",
    ),
    (
        ("-tp", "2", *SMALL),
        "Total number of attention heads (9) must be divisible by tensor parallel size (2).",
        "tensor_parallel_indivisible",
    ),
    (
        ("--max-model-len", "8192", "--max-num-batched-tokens", "100", "--no-enable-chunked-prefill", *BIG),
        "max_num_batched_tokens (100) is smaller than max_model_len (8192).",
        "batched_tokens_too_small",
    ),
    (
        ("--max-model-len", "8192", *SMALL),
        "ValueError: To serve at least one request with the model's max seq len (8192)",
        "does_not_fit",
    ),
    # Since 0.30 YaRN alone no longer lengthens the context.
    (
        ("--max-model-len", "32768", *BIG, *overrides(YARN)),
        "User-specified max_model_len (32768) is greater than the derived max_model_len",
        "context_over_trained",
    ),
)


def test_what_vllm_refuses_is_known_before(vllm: EngineBuild, smollm2_hf: Path) -> None:
    """The reasons are the engine's; the codes are those of ``ropewalk check``, which starts nothing."""
    questions = [{"argv": [str(smollm2_hf), *flags], "available": 0} for flags, _, _ in REFUSED]
    inspection, machine = core.inspect(smollm2_hf), Machine(kind="cpu")
    for (flags, reason, code), answer in zip(REFUSED, ask_many(vllm, questions, env={}), strict=True):
        refusal = read_answer(answer, vllm).refusal
        assert refusal is not None, flags
        assert refusal.startswith(reason)
        argv = ("vllm", "serve", str(smollm2_hf), *flags)
        checked = check_command(argv, inspection=inspection, engine_version=vllm.version, machine=machine)
        assert code in [finding.code for finding in checked.findings if finding.severity == "error"]


def test_the_command_of_a_scaled_plan_is_accepted(vllm: EngineBuild, smollm2_hf: Path) -> None:
    after = core.plan(smollm2_hf, context_len=32768, confirm=True)
    assert after.rope.decision == "scale"
    assert after.launch is not None
    assert after.launch.confirmed_by == "engine"
    assert {term.name for term in after.memory.terms if term.basis == "dry_run"} == {"weights", "kv_cache"}
    assert not [finding for finding in after.findings if finding.code == "dry_run_differs"]
