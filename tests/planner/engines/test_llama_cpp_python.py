"""Plans for llama-cpp-python's server against what it printed (0.3.36, CPU)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.planner.models import gemma3_270m, smollm2

from ropewalk.errors import UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines.llama_cpp_python import PythonMemoryModel, findings, memory_model
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Memory, MemoryTerm, PlanRequest
from ropewalk.planner.terms import memory_of
from ropewalk.units import MIB

CPU = Machine(kind="cpu")
ROUNDING = 5243  # two decimals of a MiB


def memory(model: Inspection, context_len: int, machine: Machine = CPU, **options: Any) -> Memory:
    request = PlanRequest(context_len, "llama-cpp-python", **options)
    chosen = memory_model(PlanningCase(shape_of(model), request, machine))
    assert isinstance(chosen, PythonMemoryModel)
    return memory_of(chosen.estimate_memory(context_len, 1))


def term(memory: Memory, name: str) -> MemoryTerm:
    found = memory.term(name)
    assert found is not None, name
    return found


Q8 = {"cache_type_k": "q8_0", "cache_type_v": "q8_0"}


@pytest.mark.parametrize(
    ("context_len", "options", "cells", "kv", "compute"),
    [
        (2048, {"flash_attn": "off"}, 2048, 45.00, 99.38),
        (8192, {"flash_attn": "off"}, 8192, 180.00, 166.38),
        (2048, {}, 2048, 45.00, 102.51),
        (8192, {}, 8192, 180.00, 98.25),
        (131_072, {}, 131_072, 2880.00, 141.51),
        (8192, Q8, 8192, 95.62, 99.38),
        (16_384, {"arm": "yarn:2"}, 16_384, 360.00, 98.25),
        (3001, {"batch": 300, "ubatch": 128}, 3072, 67.50, 24.56),
        (100, {}, 256, 5.62, 19.19),
        (4096, {"cache_type_k": "q4_0", "flash_attn": "off"}, 4096, 57.66, 99.38),
    ],
)
def test_smollm2_as_printed(
    context_len: int, options: dict[str, Any], cells: int, kv: float, compute: float
) -> None:
    found = memory(smollm2(), context_len, **options)
    assert found.kv.num_blocks == cells
    assert abs(term(found, "kv_cache").bytes - kv * MIB) <= ROUNDING
    assert term(found, "output_buffer").bytes == 49_152 * 4  # printed 0.19
    buffer = term(found, "compute_buffer")
    assert buffer.low_bytes - ROUNDING <= compute * MIB <= buffer.high_bytes + ROUNDING
    assert compute * MIB - buffer.bytes < 4.3 * MIB


def test_the_buffer_is_exact_where_nothing_is_moved() -> None:
    """``CPU compute buffer size is 98.2520 MiB``, printed with four decimals when it ends."""
    assert abs(term(memory(smollm2(), 8192), "compute_buffer").bytes - 98.2520 * MIB) <= 53


def test_windows_are_kept_at_full_length() -> None:
    """Gemma 3 270M at 2,048 tokens: ``KV buffer size = 6.00 MiB`` and ``30.00 MiB``."""
    found = memory(gemma3_270m(), 2048)
    assert term(found, "kv_cache").bytes == 36 * MIB
    assert abs(term(found, "compute_buffer").bytes - 514.50 * MIB) <= ROUNDING
    shape, request = shape_of(gemma3_270m()), PlanRequest(2048, "llama-cpp-python")
    windows = [
        one.where["window"]
        for one in findings(PlanningCase(shape, request, CPU))
        if one.code == "window_kept_whole"
    ]
    assert windows == [512]


def test_the_librarys_own_logits_are_reserved_and_never_written() -> None:
    """RSS after a prompt of 7,900 tokens: 389 MiB, of which 180 are cache and 92 weights."""
    found = memory(smollm2(), 8192)
    logits = term(found, "logits")
    assert (logits.low_bytes, logits.bytes, logits.high_bytes) == (0, 0, 512 * 49_152 * 4)
    overhead = term(found, "process_overhead")
    used = 24 * MIB  # of the compute buffer: one row of logits is asked for, not 512
    seen = 389 * MIB - 180 * MIB - 92 * MIB - used
    assert overhead.low_bytes <= seen <= overhead.high_bytes
    assert abs(overhead.bytes - seen) < 3 * MIB


def test_a_gpu_with_the_output_layer_holds_the_logits() -> None:
    found = memory(smollm2(), 2048, Machine(kind="gpu"), device="cuda:0", pipeline_parallel=2)
    first, last, host = found.per_device
    assert last.total_bytes - last.weights_bytes - last.kv_bytes > 96 * MIB
    assert (host.device, first.device) == ("cpu", "gpu:0")
    assert first.total_bytes - first.weights_bytes - first.kv_bytes < 300 * MIB


def test_one_sequence() -> None:
    with pytest.raises(UsageError, match="serves at most 1 at a time, not 2"):
        make_plan(smollm2(), PlanRequest(2048, "llama-cpp-python", num_sequences=2))
    fit = make_plan(smollm2(), PlanRequest(2048, "llama-cpp-python", memory_bytes=8 << 30), machine=CPU).fit
    assert fit.max_sequences == 1
    assert {row.max_sequences for row in fit.table} == {1}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cache_ram_bytes": 1}, "has no --cache-ram; llama-server has"),
        ({"context_checkpoints": 1}, "has no --context-checkpoints"),
        ({"mtp": 1}, "has no --mtp"),
        ({"tensor_parallel": 2, "layer_partition": (3, 4)}, "does not support --layer-partition"),
        ({"cache_type_v": "q9"}, "llama-cpp-python has no cache type 'q9'"),
    ],
)
def test_what_its_server_cannot_be_told_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        memory_model(PlanningCase(shape_of(smollm2()), PlanRequest(2048, "llama-cpp-python", **options), CPU))


def test_no_cap_at_the_trained_context_has_to_be_lifted() -> None:
    """16,384 tokens without scaling are served as they are: the cap is llama-server's, not the library's."""
    plan = make_plan(smollm2(), PlanRequest(16_384, "llama-cpp-python", arm="unscaled"), machine=CPU)
    assert plan.override_context_len is None
    assert "context_over_trained" in {finding.code for finding in plan.findings}
