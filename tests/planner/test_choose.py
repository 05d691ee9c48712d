"""The ranking of candidates: what holds a length, on a card of a size, best first."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import CONFIG
from tests.planner.engines.test_llama_placement import replicas
from tests.planner.models import llama_8b, smollm2
from tests.serving.dry_run.models import FAMILIES

from ropewalk import core
from ropewalk.cli.serve import command as serve
from ropewalk.engines import EngineName
from ropewalk.errors import UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.cache_costs import CacheCost
from ropewalk.planner.choice import Choice
from ropewalk.planner.choose import NOTHING_KNOWN, Known, Target, choose
from ropewalk.planner.machine import Machine
from ropewalk.planner.options import option_words
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import PlanRequest
from ropewalk.serving.engines import adapter_of
from ropewalk.serving.host.devices import Device
from ropewalk.serving.host.probe import Host
from ropewalk.units import GIB, MIB

__all__ = ["replicas"]
GPU = Machine(kind="gpu", bandwidth=1e12, peak_flops=1e14)
NOWHERE = Host(None, (Device("cpu", "cpu", "Example CPU", 8 * GIB, 8 * GIB),))  # with no engine


def chosen(*models: Any, known: Known = NOTHING_KNOWN, **options: Any) -> Choice:
    given = {"context_len": 4096, "memory_bytes": 24 * GIB, "device": "cuda", **options}
    engines: tuple[EngineName, ...] = ("vllm", "llama-server")
    targets = [Target(PlanRequest(engine=engine, **given), GPU) for engine in engines]
    return choose(models, targets, device="a card", known=known)


def test_every_checkpoint_engine_and_cache_type_is_a_candidate() -> None:
    found = chosen(smollm2(), llama_8b())
    kinds = {(option.engine, option.checkpoint, option.cache_type) for option in found.options}
    assert len(kinds) == len(found.options)
    assert {engine for engine, *_ in kinds} >= {"vllm"}
    assert found.positive
    assert found.options[0].works


def test_what_does_not_fit_comes_last_the_nearest_first() -> None:
    found = chosen(llama_8b(), memory_bytes=20 * GIB, context_len=32768)
    works = [option.works for option in found.options]
    assert works == sorted(works, reverse=True)
    lost = [option.spare_bytes or 0 for option in found.options if not option.works]
    assert lost == sorted(lost, reverse=True)


def test_without_a_device_there_is_no_choice() -> None:
    with pytest.raises(UsageError, match="--gpu NAME or --memory SIZE"):
        chosen(smollm2(), memory_bytes=None)


def test_the_longest_of_each() -> None:
    found = chosen(llama_8b(), context_len=0)
    assert found.context_len is None
    lengths = [option.context_len for option in found.options if option.works]
    assert lengths == sorted(lengths, reverse=True)
    assert max(lengths) <= 131072


def test_the_replicas_at_128k_on_24_gib(replicas: Path) -> None:
    """Whole on the card and without scaling where possible; the biggest such model first."""
    names = ("Qwen3-4B-Q4_K_M", "Qwen3.6-27B-Q4", "Qwen3.6-35B-A3B-Q4_K", "Qwen3-32B-Q4_K_M")
    sources = [replicas / f"{name}.gguf" for name in names]
    found = core.choose(sources, context_len=131072, memory_bytes=24 * GIB, device="cuda")
    first = found.options[0]
    assert first.checkpoint.endswith("Qwen3.6-35B-A3B-Q4_K.gguf")
    assert (first.cache_type, first.host_weights_bytes, first.rope) == ("f16", 0, "none")
    assert found.command is not None
    assert "-ctk f16" in found.command
    moved = [option for option in found.options if option.host_weights_bytes]
    assert all(option.checkpoint.endswith("Qwen3-32B-Q4_K_M.gguf") for option in moved)


def test_experts_go_to_the_host_where_a_card_is_small(replicas: Path) -> None:
    source = replicas / "Qwen3.6-35B-A3B-Q4_K.gguf"
    found = core.choose([source], context_len=131072, memory_bytes=12 * GIB, device="cuda")
    first = found.options[0]
    assert first.works
    assert first.n_cpu_moe
    assert found.command is not None
    assert f"--n-cpu-moe {first.n_cpu_moe}" in found.command


def test_a_folder_of_several_files_stands_for_all_of_them(tmp_path: Path) -> None:
    for family in ("llama", "qwen3moe"):
        FAMILIES[family](tmp_path / f"{family}.gguf")
    found = core.choose([tmp_path], context_len=4096, memory_bytes=GIB, device="cuda")
    assert {Path(option.checkpoint).name for option in found.options} == {"llama.gguf", "qwen3moe.gguf"}


@pytest.mark.parametrize("memory", [None, 500 * MIB])
def test_a_plan_for_the_longest_context(memory: int | None) -> None:
    request = PlanRequest(0, "llama-server", memory_bytes=memory)
    found = make_plan(smollm2(), request, machine=Machine(kind="cpu"))
    assert found.context_len == (8192 if memory is None else min(8192, found.fit.max_context_len or 0))
    assert found.request.context_len == found.context_len


@pytest.fixture(scope="module")
def qwen3_8b(tmp_path_factory: pytest.TempPathFactory) -> Inspection:
    """131,072 published with YaRN, 32,768 trained."""
    folder = tmp_path_factory.mktemp("published") / "Qwen3-8B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return core.inspect(folder)


def test_of_the_longest_what_needs_scaling_comes_with_and_without(qwen3_8b: Inspection) -> None:
    found = chosen(qwen3_8b, context_len=0, memory_bytes=80 * GIB)
    kinds = {(option.context_len, option.rope) for option in found.options}
    assert kinds == {(131_072, "scale"), (32_768, "none")}
    assert found.options[0].context_len == 131_072


def test_beyond_what_is_published_comes_after_what_is_within() -> None:
    found = chosen(smollm2(), llama_8b(), context_len=131_072, memory_bytes=80 * GIB)
    beyond = [option.is_beyond for option in found.options if option.works]
    assert beyond == sorted(beyond)
    assert set(beyond) == {False, True}
    assert all(option.is_beyond == (option.parameters == 134_515_008) for option in found.options)


def test_the_closest_is_named_where_nothing_reaches(qwen3_8b: Inspection) -> None:
    found = chosen(qwen3_8b, context_len=1_048_576, memory_bytes=40 * GIB)
    assert not found.positive
    (finding,) = found.findings
    first = found.options[0]
    assert (finding.code, finding.severity) == ("no_candidate", "error")
    assert finding.where["largest_context_len"] == first.largest_context_len == 131_072
    assert first.limited_by == "publisher"
    assert "the closest" in finding.message


def test_what_each_step_down_would_save_is_what_it_then_needs() -> None:
    found = chosen(llama_8b(), memory_bytes=40 * GIB, context_len=65_536, num_sequences=2)
    first = found.options[0]
    steps = {step.kind: step for step in found.steps}
    fp8 = next(option for option in found.options if option.cache_type == "fp8")
    assert steps["cache_type"].saved_bytes == (first.needed_bytes or 0) - (fp8.needed_bytes or 0)
    shorter = replace(first.request, context_len=32_768)
    again = make_plan(llama_8b(), shorter, machine=GPU)
    assert (first.needed_bytes or 0) - steps["context_len"].saved_bytes == again.memory.high_bytes
    assert set(steps) == {"cache_type", "num_sequences", "context_len"}


def test_a_measured_cache_type_beats_the_rule() -> None:
    seen = CacheCost("none", "measured", "run abc", 0.96)
    known = Known(cache_cost=lambda model, engine, name: seen if name == "fp8" else None)
    found = chosen(llama_8b(), known=known)
    costs = {option.cache_type: option.cache_cost for option in found.options}
    assert costs["fp8"] == seen
    assert costs["auto"].basis == "rule"
    assert "recall 96%" in next(option.reason for option in found.options if option.cache_type == "fp8")


@pytest.mark.parametrize("engine", ["llama-server", "llama-cpp-python"])
def test_what_fits_is_what_the_plan_says(replicas: Path, engine: EngineName) -> None:
    """The price of a candidate is its plan's, of every placement and cache type."""
    source = replicas / "Qwen3-32B-Q4_K_M.gguf"
    found = core.choose(
        [source], context_len=32_768, engines=[engine], memory_bytes=20 * GIB, hosts=lambda name: NOWHERE
    )
    for option in found.options:
        planned = core.plan(source, option.request, host=NOWHERE)
        assert (planned.fit.fits, planned.positive) == (option.fits, option.works)
        high = [share.high_bytes for share in planned.memory.per_device]
        assert option.needed_bytes in high


def test_the_first_command_of_all_replicas_is_judged_ok(replicas: Path) -> None:
    found = core.choose(replicas, context_len=131_072, memory_bytes=24 * GIB, hosts=lambda name: NOWHERE)
    assert found.command is not None
    assert found.options[0].checkpoint.endswith("Qwen3.6-35B-A3B-Q4_K.gguf")
    judged = core.check(found.command, memory_bytes=24 * GIB, device="gpu")
    assert (judged.ok, [one.code for one in judged.findings if one.severity == "error"]) == (True, [])
    assert len({option.checkpoint for option in found.options}) > 25


def test_a_file_of_the_hub_is_fetched_by_the_engine() -> None:
    argv = ("-m", "org/Model-GGUF:Model-Q4_K_M.gguf", "-a", "Model", "-c", "4096")
    command = adapter_of("llama-server").command_of(argv, {})
    assert command.startswith("llama-server --hf-repo org/Model-GGUF --hf-file Model-Q4_K_M.gguf -a Model")
    for local in ("/models/model.gguf", "models/model.gguf", "model.gguf"):
        assert f"-m {local}" in adapter_of("llama-server").command_of(("-m", local), {})


def test_the_options_of_the_command_here_are_those_of_serve() -> None:
    request = PlanRequest(
        8192, "llama-server", 2, cache_type_k="q8_0", cache_type_v="q8_0", n_cpu_moe=3, kv_unified=True
    )
    words = option_words(request)
    assert words[:6] == ("--engine", "llama-server", "--context", "8192", "--sequences", "2")
    known = {name for param in serve.params for name in (*param.opts, *param.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known


def test_where_not_one_token_fits_there_is_no_longest() -> None:
    with pytest.raises(UsageError, match="not even one token fits"):
        make_plan(llama_8b(), PlanRequest(0, "llama-server", memory_bytes=GIB), machine=Machine(kind="cpu"))
