"""The ranking of candidates: what holds a length, on a card of a size, best first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.planner.engines.test_llama_placement import replicas
from tests.planner.models import llama_8b, smollm2
from tests.serving.dry_run.models import FAMILIES

from ropewalk import core
from ropewalk.errors import UsageError
from ropewalk.planner.choose import Choice, choose
from ropewalk.planner.machine import Machine
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import PlanRequest
from ropewalk.units import GIB, MIB

__all__ = ["replicas"]
GPU = Machine(kind="gpu", bandwidth=1e12, peak_flops=1e14)


def chosen(*models: Any, **options: Any) -> Choice:
    given = {"context_len": 4096, "memory_bytes": 24 * GIB, "device": "cuda", **options}
    request = PlanRequest(engine="vllm", **given)
    return choose(models, request, engines=("vllm", "llama-server"), machine=GPU)


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


def test_where_not_one_token_fits_there_is_no_longest() -> None:
    with pytest.raises(UsageError, match="not even one token fits"):
        make_plan(llama_8b(), PlanRequest(0, "llama-server", memory_bytes=GIB), machine=Machine(kind="cpu"))
