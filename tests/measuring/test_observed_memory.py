from __future__ import annotations

import mmap
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.planner.models import gemma3_270m, smollm2

from ropewalk.inspector.records import Inspection
from ropewalk.measuring.observed_memory import MAX_SAMPLES, Seen, downsample, memory_terms
from ropewalk.measuring.records import MemoryTermSeen
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import PlanRequest
from ropewalk.serving.host.process_memory import (
    MemorySample,
    Region,
    largest_anonymous,
    mappings,
    resident_of_files,
)
from ropewalk.serving.server_report import PrintedBuffer, ServerReport

# Printed by llama.cpp b11434 for SmolLM2-135M-Instruct Q4_1 with -c 8192 -np 1, and seen of its process.
BUFFERS = (
    PrintedBuffer("weights", "CPU_Mapped", 96_573_850, 5243),
    PrintedBuffer("kv_cache", "CPU", 188_743_680, 5243),
    PrintedBuffer("output_buffer", "CPU", 199_229, 5243),
    PrintedBuffer("compute_buffer", "CPU", 23_739_761, 5243),
)
REGIONS = (
    Region("", 188_751_872),
    Region("/models/SmolLM2-135M-Instruct.Q4_1.gguf", 96_583_680),
    Region("/usr/lib/libc.so.6", 1_800_000),
    Region("[heap]", 30_000_000),
)
LOADED = MemorySample("loaded", anon_bytes=219_000_000, file_bytes=98_000_000, seconds=1.0)
LONGEST = MemorySample("longest", anon_bytes=242_827_264, file_bytes=98_000_000, seconds=60.0)


def terms(
    *,
    buffers: tuple[PrintedBuffer, ...] = BUFFERS,
    inspection: Inspection | None = None,
    longest: bool = True,
) -> dict[str, MemoryTermSeen]:
    inspection = inspection or smollm2()
    plan = make_plan(inspection, PlanRequest(context_len=8192, engine="llama-server"))
    report = ServerReport("SmolLM2", 8192, 1, 8192, buffers)
    seen = Seen(REGIONS, LOADED, LONGEST if longest else None)
    terms = memory_terms(plan.memory, report, inspection=inspection, seen=seen)
    return {term.name: term for term in terms}


def test_every_term_three_times() -> None:
    seen = terms()
    assert list(seen)[:2] == ["weights", "kv_cache"]
    cache = seen["kv_cache"]
    assert (cache.planned_bytes, cache.printed_bytes, cache.measured_bytes) == (
        188_743_680,
        188_743_680,
        188_751_872,
    )
    assert seen["weights"].measured_bytes == 96_583_680
    assert seen["process_overhead"].measured_bytes == 219_000_000 - 188_743_680
    assert seen["process_overhead"].printed_bytes is None
    assert seen["compute_buffer"].measured_bytes == 242_827_264 - 219_000_000 - 199_229
    assert (seen["output_buffer"].measured_bytes, seen["output_buffer"].how) == (None, None)


def test_what_was_seen_beyond_the_plan_has_its_own_line() -> None:
    seen = terms()
    assert list(seen)[-1] == "unexplained"
    planned = sum(term.planned_bytes or 0 for term in seen.values())
    rest = seen["unexplained"]
    assert (rest.planned_bytes, rest.printed_bytes) == (None, None)
    assert rest.measured_bytes == 242_827_264 + 96_583_680 - planned


def test_weights_rearranged_for_the_processor_are_not_the_process() -> None:
    """llama.cpp prints them apart; they lie in anonymous memory beside the mapped file."""
    repacked = PrintedBuffer("weights", "CPU_REPACK", 13_275_000, 5243)
    seen = terms(buffers=(*BUFFERS, repacked))
    assert seen["process_overhead"].measured_bytes == 219_000_000 - 188_743_680 - 13_275_000
    assert seen["weights"].measured_bytes == 96_583_680


@pytest.mark.parametrize(
    "buffers",
    [(), (*BUFFERS, PrintedBuffer("kv_cache", "CUDA0", 1000, 1))],
    ids=["nothing printed", "on a GPU"],
)
def test_what_cannot_be_told_apart_is_unknown(buffers: tuple[PrintedBuffer, ...]) -> None:
    seen = terms(buffers=buffers)
    assert {term.measured_bytes for term in seen.values()} == {None}
    assert "unexplained" not in seen


def test_two_caches_are_not_one_mapping() -> None:
    assert terms(inspection=gemma3_270m())["kv_cache"].measured_bytes is None


def test_a_small_cache_may_share_its_mapping() -> None:
    small = (replace(BUFFERS[1], bytes=11_796_480), *BUFFERS[2:], BUFFERS[0])
    assert terms(buffers=small)["kv_cache"].measured_bytes is None


def test_without_a_sample_nothing_is_said_of_what_grows() -> None:
    seen = terms(longest=False)
    assert seen["compute_buffer"].measured_bytes is None
    assert "unexplained" not in seen


def test_thinning_keeps_named_moments_and_a_curve() -> None:
    samples = [MemorySample(f"t={second}", 1, 1, float(second)) for second in range(5000)]
    samples[777] = replace(samples[777], moment="ubatch")
    kept = downsample(samples)
    assert MAX_SAMPLES - 20 <= len(kept) <= MAX_SAMPLES + 1
    assert "ubatch" in [sample.moment for sample in kept]
    assert [sample.seconds for sample in kept] == sorted(sample.seconds for sample in kept)
    assert downsample(()) == ()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_mappings_of_this_process(tmp_path: Path) -> None:
    path = tmp_path / "weights.gguf"
    path.write_bytes(b"x" * 1_000_000)
    block = mmap.mmap(-1, 64 * 2**20)
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as view:
        path.unlink()  # a file that is gone is still mapped
        assert sum(view[::4096]) > 0
        block.write(b"y" * (32 * 2**20))
        found = mappings(os.getpid())
    assert resident_of_files(found, "weights.gguf") == 1_003_520  # 245 pages
    largest = largest_anonymous([region for region in found if "/dev/zero" not in region.path])
    assert largest is not None
    block.close()


def test_a_process_that_is_gone_has_no_mappings() -> None:
    assert mappings(-1) == ()
    assert resident_of_files((), ".gguf") is None
    assert largest_anonymous((Region("/a", 5), Region("[stack]", 9))) is None
