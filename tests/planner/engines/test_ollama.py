"""Ollama: what it starts llama-server with, what it takes no setting for, what it would do on its own."""

from __future__ import annotations

from typing import Any

import pytest
from tests.planner.models import smollm2

from ropewalk.errors import UsageError
from ropewalk.findings import Finding
from ropewalk.planner.machine import Machine
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.units import GIB


def plan(context_len: int, *, machine: Machine | None = None, **options: Any) -> Plan:
    request = PlanRequest(context_len, "ollama", **options)
    return make_plan(smollm2(), request, machine=machine or Machine(kind="cpu"))


def finding(found: Plan, code: str) -> Finding:
    return next(one for one in found.findings if one.code == code)


@pytest.mark.parametrize(
    ("context_len", "num_sequences", "batch"),
    [(4096, 1, 512), (4097, 1, 1024), (2048, 4, 1024), (8192, 4, 1024), (8192, 5, 2048)],
)
def test_it_is_the_llama_server_that_ollama_starts(context_len: int, num_sequences: int, batch: int) -> None:
    """server/sched.go generationBatchForContext: -b and -ub by the tokens of all slots."""
    found = plan(context_len, num_sequences=num_sequences).memory
    server = make_plan(
        smollm2(),
        PlanRequest(context_len, "llama-server", num_sequences=num_sequences, batch=batch, ubatch=batch),
        machine=Machine(kind="cpu"),
    ).memory
    assert [(one.name, one.bytes, one.high_bytes) for one in found.terms] == [
        (one.name, one.bytes, one.high_bytes) for one in server.terms
    ]
    assert found.kv == server.kv


def test_a_smaller_batch_is_the_lower_end() -> None:
    """Where memory is short the batch is 512 again."""
    found, least = plan(8192).memory, plan(8192, batch=512).memory
    compute, small = found.term("compute_buffer"), least.term("compute_buffer")
    assert compute is not None
    assert small is not None
    assert (compute.low_bytes, compute.basis) == (small.low_bytes, "estimate")
    assert compute.bytes > small.bytes


def test_no_more_than_the_file_declares() -> None:
    """llm/server.go NewLlamaServer: num_ctx is capped at the trained length, and there is no rope setting."""
    assert plan(8192).rope.decision == "none"
    for arm in ("auto", "shipped", "unscaled", "yarn:2"):
        refused = plan(12_288, arm=arm)
        assert refused.rope.decision == "refuse"
        assert "ropewalk bake" in finding(refused, "rope_only_in_header").message


def test_where_the_settings_go() -> None:
    found = plan(4096, num_sequences=2, cache_type_k="q8_0", cache_type_v="q8_0", gpu_layers=10, batch=256)
    told = finding(found, "ollama_settings").where
    assert told["modelfile"] == ["PARAMETER num_ctx 4096", "PARAMETER num_batch 256", "PARAMETER num_gpu 10"]
    assert told["environment"] == {
        "OLLAMA_NUM_PARALLEL": "2",
        "OLLAMA_KV_CACHE_TYPE": "q8_0",
        "OLLAMA_FLASH_ATTENTION": "1",
        "LLAMA_ARG_CACHE_RAM": "0",
        "LLAMA_ARG_CTX_CHECKPOINTS": "0",
    }


@pytest.mark.parametrize(
    ("memory_gib", "default"), [(16, 4096), (22, 4096), (24, 32_768), (46, 32_768), (48, 262_144)]
)
def test_why_is_my_context_4k(memory_gib: int, default: int) -> None:
    """server/routes.go: by the GPUs' memory, with thresholds of 23 and 47 GiB."""
    machine = Machine(kind="gpu", memory_bytes=memory_gib * GIB)
    found = plan(2048, machine=machine)
    assert finding(found, "ollama_default_context").where["default_context"] == default


def test_on_the_processor_it_is_4k() -> None:
    machine = Machine(kind="cpu", memory_bytes=256 * GIB)
    assert finding(plan(2048, machine=machine), "ollama_default_context").where["default_context"] == 4096


def test_a_setting_that_it_does_not_hand_on() -> None:
    found = plan(2048, kv_unified=True, swa_full=True, ubatch=64)
    assert finding(found, "setting_unavailable").where["flags"] == ["--swa-full", "--kv-unified", "--ubatch"]
    assert found.memory == plan(2048).memory


@pytest.mark.parametrize(
    "options",
    [
        {"cache_type_k": "q8_0"},
        {"rpc_servers": ("10.0.0.1:50052",)},
        {"mtp": True},
    ],
)
def test_what_it_has_no_setting_for(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        plan(2048, **options)
