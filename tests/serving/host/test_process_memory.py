"""Memory of a process tree, anonymous and file-backed apart."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ropewalk.serving.host.process_memory import MemorySampler, resident
from ropewalk.units import MIB

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="no smaps_rollup")

# Holds 64 MiB of its own, maps 32 MiB of a file and touches them, and has a child that holds 32 MiB.
CODE = """
import mmap, signal, subprocess, sys
own = bytearray(64 * 2**20)
own[::4096] = b"x" * len(own[::4096])
file = open(sys.argv[1], "rb")
mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
sum(mapped[::4096])
child = subprocess.Popen(
    [sys.executable, "-c", "b = bytearray(b'x') * (32 * 2**20); print('ready', flush=True); input()"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
)
child.stdout.readline()
print("ready", flush=True)
input()
"""


@pytest.fixture(scope="module")
def holder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    file = tmp_path_factory.mktemp("mapped") / "file"
    file.write_bytes(b"y" * 32 * MIB)
    with subprocess.Popen(
        [sys.executable, "-c", CODE, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        process.communicate("\n")


def test_both_kinds_are_told_apart_over_the_tree(holder: int) -> None:
    seen = resident(holder)
    assert seen is not None
    assert 96 * MIB <= seen.anon_bytes <= 130 * MIB  # 64 and 32, and two interpreters
    assert 32 * MIB <= seen.file_bytes <= 60 * MIB


def test_a_process_that_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert resident(process.pid) is None


def test_the_sampler_marks_moments_among_its_samples(holder: int) -> None:
    with MemorySampler(holder, interval_seconds=0.01) as sampler:
        first = sampler.mark("loaded")
        last = sampler.mark("longest")
    assert first is not None
    assert last is not None
    assert (first.moment, last.moment) == ("loaded", "longest")
    assert first.seconds <= last.seconds
    assert {first, last} <= set(sampler.samples)


def test_the_sampler_of_nothing_is_empty() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with MemorySampler(process.pid) as sampler:
        assert sampler.mark("loaded") is None
    assert sampler.samples == ()
