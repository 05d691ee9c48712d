"""The embedded engine's own figures for small models of five families, beside ours."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.serving.dry_run.models import FAMILIES

from ropewalk.core import plan
from ropewalk.engines import EngineBuild
from ropewalk.planner.records import Plan
from ropewalk.serving.dry_run import confirm_plan
from ropewalk.serving.engines.llama_cpp.launch import DEFAULT_PORT
from ropewalk.serving.host.probe import probe_host

pytestmark = pytest.mark.engine

SHAPES: tuple[dict[str, Any], ...] = (
    {"context_len": 4096},
    {"context_len": 3000, "num_sequences": 2, "flash_attn": "off"},
)


@pytest.mark.parametrize("options", SHAPES, ids=["plain", "slots-without-flash"])
@pytest.mark.parametrize("family", FAMILIES)
def test_caches_and_buffers(
    family: str, options: dict[str, Any], embedded: EngineBuild, tmp_path: Path
) -> None:
    planned = plan(FAMILIES[family](tmp_path / "model.gguf"), **options)
    after = confirm_plan(planned, build=probe_host("llama-server").build)
    assert after.launch is not None
    assert after.launch.confirmed_by == "engine"
    for name in ("kv_cache", "state", "output_buffer"):
        before, term = planned.memory.term(name), after.memory.term(name)
        if before is not None and term is not None:
            assert (term.basis, term.bytes) == ("dry_run", before.bytes)
    compute = after.memory.term("compute_buffer")
    assert compute is not None
    assert compute.basis == "dry_run"
    differs = [finding.where["term"] for finding in after.findings if finding.code == "dry_run_differs"]
    assert differs == []


def test_nothing_is_allocated_however_long_the_context(embedded: EngineBuild, smollm2: Path) -> None:
    after = plan(smollm2, context_len=4_000_000, arm="unscaled", confirm=True)
    cache = after.memory.term("kv_cache")
    assert cache is not None
    assert (cache.bytes, cache.basis) == (92_160_000_000, "dry_run")  # 86 GiB


def test_a_planned_port_that_is_taken_is_no_hindrance(embedded: EngineBuild, smollm2: Path) -> None:
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # taken by somebody else is as good
            taken.bind(("127.0.0.1", DEFAULT_PORT))
            taken.listen()
        after = plan(smollm2, context_len=512, confirm=True)
    assert after.launch is not None
    assert after.launch.confirmed_by == "engine"


def test_the_engines_refusal_is_its_own_words(embedded: EngineBuild, smollm2: Path) -> None:
    after = plan(
        smollm2, context_len=512, flash_attn="off", cache_type_k="q8_0", cache_type_v="q8_0", confirm=True
    )
    assert {finding.code for finding in after.findings} == {
        "engine_refuses",
        "cache_type_needs_flash_attention",
    }
    refusal = next(finding for finding in after.findings if finding.code == "engine_refuses")
    assert refusal.where["reason"] == (
        "llama_init_from_model: quantized V cache requires flash_attn to be enabled"
    )


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (None, "no llama-server is installed here"),
        (EngineBuild("llama-server", "llama-server", "11434", "/bin/llama-server"), "no option for it"),
        (
            EngineBuild("embedded", "llama-server", "2026.1.9999", "python"),
            "plan is for version 11434, 2026.1.9999 is",
        ),
    ],
)
def test_who_cannot_be_asked(build: EngineBuild | None, reason: str, smollm2_plan: Plan) -> None:
    after = confirm_plan(smollm2_plan, build=build)
    assert [finding.code for finding in after.findings] == ["dry_run_unavailable"]
    assert reason in after.findings[0].message
    assert replace(after, findings=()) == replace(smollm2_plan, findings=())


def test_a_file_elsewhere_cannot_be_asked_for(embedded: EngineBuild, smollm2_plan: Plan) -> None:
    away = replace(smollm2_plan, checkpoint="org/model-GGUF")
    build = replace(embedded, version="11434")
    (finding,) = confirm_plan(away, build=build).findings
    assert finding.message.endswith("org/model-GGUF is not a file on this machine")


@pytest.fixture
def smollm2_plan(smollm2: Path) -> Plan:
    return plan(smollm2, context_len=1024, engine_version="11434")
