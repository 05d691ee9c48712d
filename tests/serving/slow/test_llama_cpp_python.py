"""A real server of llama-cpp-python: what was planned is what it prints, serves and recalls.

Runs where ``ropewalk engine add llama-cpp-python`` was, or ``ROPEWALK_LLAMA_CPP_PYTHON`` names one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk import core
from ropewalk.engines import EngineBuild
from ropewalk.errors import EngineFailedError, EngineMissingError
from ropewalk.serving.engines import launch_of, pick_engine, with_devices
from ropewalk.serving.engines.find import run
from ropewalk.serving.engines.llama_cpp_python.find import ASK_LIBRARY
from ropewalk.serving.launcher import start
from ropewalk.serving.live import Watch
from ropewalk.serving.preflight import preflight
from ropewalk.serving.verify import fill, printed_scaling, verify

pytestmark = pytest.mark.slow

MOVED = 5 * 2**20  # the most by which the compute buffer was seen above its figure


@pytest.fixture(scope="session")
def build() -> EngineBuild:
    try:
        return pick_engine("llama-cpp-python")
    except EngineMissingError as error:
        pytest.skip(error.message)


@pytest.mark.parametrize(
    "options",
    [
        {"context_len": 700},
        {"context_len": 512, "cache_type_k": "q8_0", "cache_type_v": "q8_0", "ubatch": 128},
        {"context_len": 512, "flash_attn": "off"},
        {"context_len": 16_384, "arm": "yarn:2"},
        {"context_len": 9000, "arm": "unscaled"},
    ],
    ids=["plain", "quantised", "without-flash", "yarn", "unscaled"],
)
def test_planned_is_printed(
    options: dict[str, Any], build: EngineBuild, smollm2: Path, tmp_path: Path
) -> None:
    inspection = core.inspect(smollm2)
    plan = core.plan(inspection, engine="llama-cpp-python", **options)
    spec = launch_of(plan, build=build, port=0, threads=1)
    assert all(item.ok is not False for item in preflight(plan, spec, inspection))
    with start(spec, log_path=tmp_path / "log") as server:
        report = server.report
        assert Watch(server).look().state == "unsupported"
    assert report.context_len == spec.served_context_len
    assert report.cells == plan.memory.kv.num_blocks
    assert list(printed_scaling(plan, report)) == []
    assert report.freq_scale == (0.5 if plan.rope.decision == "scale" else 1.0)
    for name in ("weights", "kv_cache", "output_buffer", "compute_buffer"):
        term, printed = plan.memory.term(name), report.printed(name)
        assert term is not None, name
        assert printed is not None, name
        slack = printed.rounding_bytes + (MOVED if name == "compute_buffer" else 0)
        assert abs(printed.bytes - term.bytes) <= slack, name
        assert printed.bytes <= term.high_bytes + printed.rounding_bytes, name


def test_yarn_computes_what_llama_servers_does(
    build: EngineBuild, embedded: EngineBuild, smollm2: Path, tmp_path: Path
) -> None:
    """The same greedy answer from both, and another than without scaling."""
    answers = {}
    for engine in (build, embedded):
        for arm in ("yarn:4", "unscaled"):
            plan = core.plan(smollm2, context_len=9000, engine=engine.engine, arm=arm)
            spec = launch_of(plan, build=engine, port=0, threads=1)
            with start(spec, log_path=tmp_path / f"{engine.name}-{arm}") as server:
                prompt = fill(server.client, 48)
                answer = server.client.complete(prompt, max_tokens=24, cache_prompt=False)
            answers[engine.name, arm] = answer.text
    assert answers[build.name, "yarn:4"] == answers[embedded.name, "yarn:4"]
    assert answers[build.name, "unscaled"] == answers[embedded.name, "unscaled"]
    assert answers[build.name, "yarn:4"] != answers[build.name, "unscaled"]


def test_the_whole_context_is_filled_and_recalled(build: EngineBuild, smollm2: Path, tmp_path: Path) -> None:
    plan = core.plan(smollm2, context_len=512, engine="llama-cpp-python")
    spec = launch_of(plan, build=build, port=0, threads=1)
    with start(spec, log_path=tmp_path / "log") as server:
        verified = verify(server, plan, unscaled=None)
    assert (verified.filled_tokens, verified.findings) == (508, ())
    measurement = core.measure(
        smollm2, context_len=512, arms=("shipped",), engine="llama-cpp-python", engine_path=build.path,
        lengths=(400,), depths=(0.5,), threads=1, store=tmp_path / "runs.db",
    )  # fmt: skip
    (arm,) = measurement.arms
    assert [cell.hits for cell in arm.cells] == [1]
    assert "asked_in_plain_text" in {finding.code for finding in arm.findings}


def test_its_library_names_its_devices(build: EngineBuild) -> None:
    said = run([build.path, "-I", "-c", ASK_LIBRARY])
    assert said is not None
    assert "Traceback" not in said
    assert "CPU" not in with_devices(build).devices


def test_its_own_reason(build: EngineBuild, smollm2: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(smollm2.read_bytes()[:100_000])
    plan = core.plan(smollm2, context_len=512, engine="llama-cpp-python")
    spec = launch_of(plan, build=build, model=str(broken), port=0, threads=1)
    with pytest.raises(EngineFailedError, match="failed to read key-value pairs"):
        start(spec, log_path=tmp_path / "log")
