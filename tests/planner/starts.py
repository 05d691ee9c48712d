"""Starts of vLLM on GPUs that others printed, beside the plan for the same settings."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.inspector.records import Inspection
from ropewalk.planner.cards import find_cards
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import MemoryTerm, Plan, PlanRequest

STARTS = Path(__file__).parents[2] / "docs" / "vllm_starts.json"
TERMS = ("weights", "activations", "process_overhead", "cuda_graphs")
LOADED = ("weights", "projector", "rope_table")  # what "Model loading took" counts


@dataclass(frozen=True, slots=True)
class Start:
    """One start: what was printed (``seen``), and what is planned for it."""

    name: str
    version: str
    seen: Mapping[str, Any]
    plan: Plan

    @property
    def has_towers(self) -> bool:
        """Whether the model sees: what is profiled of it has a bound only."""
        return self.plan.memory.term("projector") is not None

    def term(self, name: str) -> tuple[int, int]:
        """Low and high end of a term on the first rank."""
        held = [term for term in self.plan.memory.per_device[0].terms if term.name in _parts(name)]
        return sum(map(_low, held)), sum(map(_high, held))

    def likely_bytes(self, name: str) -> int:
        """The figure between both ends."""
        terms = self.plan.memory.per_device[0].terms
        return sum(term.bytes for term in terms if term.name in _parts(name))

    def loaded_bytes(self) -> int:
        """What is planned to be loaded on the first rank."""
        return self.likely_bytes("weights")


def _parts(name: str) -> tuple[str, ...]:
    return LOADED if name == "weights" else (name,)


def _low(term: MemoryTerm) -> int:
    return term.low_bytes


def _high(term: MemoryTerm) -> int:
    return term.high_bytes


@cache
def _data() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(STARTS.read_text("utf-8"))
    return found


@cache
def _inspection(name: str) -> Inspection:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(_data()["models"][name]), "utf-8")
        return inspect_checkpoint(open_checkpoint(path))


def starts() -> Iterator[Start]:
    """Every start of the file, planned."""
    for row in _data()["starts"]:
        yield planned(row, _inspection(row["model"]))


def planned(row: Mapping[str, Any], model: Inspection) -> Start:
    """The plan for one row."""
    data = _data()
    request = PlanRequest(
        row["max_model_len"],
        "vllm",
        gpu=data["gpu"],
        engine_version=row["engine_version"],
        gpu_memory_utilization=row.get("gpu_memory_utilization", data["gpu_memory_utilization"]),
        max_num_seqs=data["max_num_seqs"],
        max_batched_tokens=data["max_batched_tokens"],
        tensor_parallel=row["tensor_parallel"],
        pipeline_parallel=row["pipeline_parallel"],
        cache_type_k=row["kv_cache_dtype"],
        cache_type_v=row["kv_cache_dtype"],
        dtype=row["dtype"],
        quantization=row.get("quantization"),
    )
    assert find_cards(data["gpu"]).card.name == data["gpu"]
    return Start(row["model"].split("/")[-1], row["engine_version"], row, make_plan(model, request))
