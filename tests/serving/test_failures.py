"""A real engine that fails for want of memory, and what is said about it."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ropewalk.errors import EngineFailedError
from ropewalk.planner.records import Launch
from ropewalk.serving.launcher import start
from ropewalk.units import MIB

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux only"),
]

SpecOf = Callable[..., Launch]
LIMIT_KIB = 2 << 20


@pytest.fixture
def limited(smollm2_spec: SpecOf, tmp_path: Path) -> SpecOf:
    """A launch in an address space of 2 GiB."""
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nulimit -v {LIMIT_KIB}\nexec "{sys.executable}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def spec(context_len: int) -> Launch:
        whole = smollm2_spec(context_len)
        return replace(whole, build=replace(whole.found_build, path=str(program)))

    return spec


def test_a_cache_that_fits_is_served(limited: SpecOf, tmp_path: Path) -> None:
    with start(limited(512), log_path=tmp_path / "log") as server:
        assert server.report.context_len == 512


def test_a_cache_that_does_not_is_told_with_its_size(limited: SpecOf, tmp_path: Path) -> None:
    # 262,144 cells x 30 layers x 3 heads x 64 values x 2 bytes, of keys and of values
    with pytest.raises(EngineFailedError) as caught:
        start(limited(262_144), log_path=tmp_path / "log")
    assert "while it started" in caught.value.message
    size = 262_144 * 30 * 3 * 64 * 2 * 2 // MIB
    assert caught.value.where["reason"] == (
        f"ggml_aligned_malloc: insufficient memory (attempted to allocate {size}.00 MB)"
    )
