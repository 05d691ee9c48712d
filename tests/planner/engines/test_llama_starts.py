"""25 real starts of small models of many kinds (b11549 on a CPU): caches, states, compute buffers."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.planner.ground_truth import rows
from tests.serving.dry_run.models import WITHOUT_GATE

from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.planner.engines.llama_compute import compute_buffer, graph_of
from ropewalk.planner.engines.llama_memory import CACHE_TYPES
from ropewalk.planner.engines.llama_server import memory_model
from ropewalk.planner.engines.llama_slots import resolve_slots
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import PlanRequest
from ropewalk.units import MIB

PRINTED = 256  # bytes: four decimals of a MiB, and the rounding of three slots
CPU = Machine(kind="cpu")
_VALUES = {"-c": int, "-np": int, "-ub": int, "-b": int, "-fa": str, "-ctk": str, "-ctv": str}


def options_of(command: str) -> dict[str, Any]:
    words = shlex.split(command)
    found: dict[str, Any] = {
        word: kind(words[words.index(word) + 1]) for word, kind in _VALUES.items() if word in words
    }
    return found | {word: word in words for word in ("--kv-unified", "--swa-full")}


@pytest.fixture(scope="session")
def engines2(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models of the starts, as sparse files."""
    folder = tmp_path_factory.mktemp("engines2")
    subprocess.run(["tar", "-xJf", str(shared / "corpus" / "engines2.tar.xz"), "-C", str(folder)], check=True)
    return folder / "gguf"


def test_caches_states_and_buffers(shared: Path, engines2: Path) -> None:
    """Caches and states to the printed 0.01 MiB; buffers inside ranges of at most 10 %."""
    checked = 0
    for row in rows(shared, "llama_server2.json"):
        model = inspect_checkpoint(open_checkpoint(str(engines2 / f"{row['model']}.gguf")))
        given = options_of(row["command"])
        slots = resolve_slots(
            given["-c"] or int(row["n_ctx"]), num_slots=given["-np"], unified=given["--kv-unified"],
            batch=given.get("-b"), ubatch=given.get("-ub"), swa_full=given["--swa-full"],
        )  # fmt: skip
        request = PlanRequest(
            slots.cells, "llama-server", num_sequences=slots.num_slots, kv_unified=slots.unified,
            swa_full=slots.swa_full, batch=given.get("-b"), ubatch=given.get("-ub"),
            flash_attn=given.get("-fa", "auto"), cache_type_k=given.get("-ctk", "f16"),
            cache_type_v=given.get("-ctv", "f16"),
        )  # fmt: skip
        shape = shape_of(model)
        terms = {
            term.name: term
            for device in memory_model(PlanningCase(shape, request, CPU)).devices(slots)
            for term in device.terms
        }
        said = row["bytes"]
        for name, printed in (("kv_cache", said["kv_mib_printed"]), ("state", said["rs_mib_printed"])):
            planned = terms[name].bytes if name in terms else 0
            assert planned / MIB == pytest.approx(sum(printed), abs=0.0051 * max(1, len(printed))), row["tag"]
        buffer = terms["compute_buffer"]
        assert buffer.low_bytes - PRINTED <= said["compute"] <= buffer.high_bytes + PRINTED, row["tag"]
        assert buffer.high_bytes - buffer.low_bytes <= 0.1 * buffer.bytes, row["tag"]
        checked += 1
    assert checked == 25


@pytest.mark.parametrize(
    ("family", "inner", "printed"),
    [
        ("gpt2", 1024, 10.02), ("gpt2", 2048, 11.02), ("gpt2", 4096, 15.02),
        ("phi2", 1024, 11.02), ("phi2", 2048, 11.02), ("phi2", 4096, 15.02),
        ("falcon", 1024, 10.02), ("falcon", 2048, 12.02), ("falcon", 4096, 16.02),
        ("falcon-40b", 1024, 9.02), ("falcon-40b", 2048, 11.02), ("falcon-40b", 4096, 15.02),
    ],
)  # fmt: skip
def test_feed_forwards_without_a_gate(tmp_path: Path, family: str, inner: int, printed: float) -> None:
    """MiB that b11549 reserves for made-up files at 2,048 tokens."""
    path = WITHOUT_GATE[family](tmp_path / "model.gguf", inner)
    f16 = CACHE_TYPES["f16"]
    graph = graph_of(shape_of(inspect_checkpoint(open_checkpoint(str(path)))), f16, f16)
    found = compute_buffer(graph, resolve_slots(2048, num_slots=1, unified=False), flash=True)
    assert found.bytes / MIB == pytest.approx(printed, abs=0.006)
    assert found.low == found.high


def test_a_model_that_only_encodes_is_refused(engines2: Path) -> None:
    model = inspect_checkpoint(open_checkpoint(str(engines2 / "g_bert.gguf")))
    found = make_plan(model, PlanRequest(512, "llama-server"), machine=CPU)
    assert not found.positive
    assert "encoder_only" in {finding.code for finding in found.findings}


def test_an_encoder_in_the_file_is_no_projector(engines2: Path) -> None:
    shape = shape_of(inspect_checkpoint(open_checkpoint(str(engines2 / "g_t5.gguf"))))
    assert shape.projector_bytes == 0
    types = CACHE_TYPES["f16"], CACHE_TYPES["f16"]
    slots = resolve_slots(512, num_slots=1, unified=False)
    graph = graph_of(shape, *types)
    assert compute_buffer(graph, slots, flash=True) == compute_buffer(graph, slots, flash=False)
