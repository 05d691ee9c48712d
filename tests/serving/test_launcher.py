"""A real server started, asked and stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ropewalk.serving.launcher import start
from ropewalk.serving.process import is_alive
from ropewalk.serving.records import LaunchSpec

pytestmark = pytest.mark.engine

SpecOf = Callable[..., LaunchSpec]


def test_it_serves_what_was_planned_and_leaves_nothing(smollm2_spec: SpecOf, tmp_path: Path) -> None:
    lines: list[str] = []
    with start(smollm2_spec(1000), log_path=tmp_path / "log", on_log=lines.append) as server:
        assert server.report.context_len == 1024
        assert server.report.num_sequences == 1
        assert server.report.cells == 1024
        cache = server.report.printed("kv_cache")
        assert cache is not None
        assert cache.bytes == 1024 * 30 * 3 * 64 * 2 * 2  # cells x layers x heads x dim x (K, V) x f16
        assert is_alive(server.pid)
    assert not is_alive(server.pid)
    assert lines[0].startswith("# ")
    assert any("listening" in line for line in lines)
