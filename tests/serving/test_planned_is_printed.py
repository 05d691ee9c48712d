"""The plan's bytes beside those that the real engine prints: equal within the rounding of the print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk.core import inspect, plan
from ropewalk.engines import EngineBuild
from ropewalk.inspector.records import Inspection
from ropewalk.serving.engines import launch_of
from ropewalk.serving.launcher import start

pytestmark = pytest.mark.engine

COMPUTE_SLACK = 213  # the most by which the formula was off in 109 runs of llama.cpp b11434


@pytest.fixture(scope="module")
def inspection(smollm2: Path) -> Inspection:
    return inspect(smollm2)


@pytest.mark.parametrize(
    "options",
    [
        {"context_len": 2048},
        {"context_len": 1000, "num_sequences": 3, "ubatch": 128},
        {"context_len": 700, "num_sequences": 2, "kv_unified": True},
        {"context_len": 2048, "cache_type_k": "q8_0", "cache_type_v": "q4_0"},
        {"context_len": 512, "cache_type_k": "f32", "flash_attn": "on", "batch": 200},
    ],
    ids=["plain", "slots", "shared", "quantised", "f32"],
)
def test_terms(
    inspection: Inspection, embedded: EngineBuild, tmp_path: Path, options: dict[str, Any]
) -> None:
    planned = plan(inspection, engine="llama-server", **options)
    spec = launch_of(planned, build=embedded, port=0, threads=1)
    with start(spec, log_path=tmp_path / "log") as server:
        report = server.report
    for name in ("weights", "kv_cache", "output_buffer", "compute_buffer"):
        term, printed = planned.memory.term(name), report.printed(name)
        assert term is not None, name
        assert printed is not None, name
        slack = COMPUTE_SLACK if name == "compute_buffer" else 0
        assert abs(printed.bytes - term.bytes) <= printed.rounding_bytes + slack, name
    streams = 1 if planned.request.kv_unified else planned.request.num_sequences
    assert report.cells == planned.memory.kv.num_blocks // streams
