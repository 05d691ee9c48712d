"""The plan's memory beside the engine's own figures and what was seen from outside."""

from __future__ import annotations

from collections.abc import Sequence

from ropewalk.inspector.records import Inspection
from ropewalk.planner.records import Memory
from ropewalk.serving.mappings import Region, largest_anonymous, resident_of_files
from ropewalk.serving.records import MemorySample, MemoryTermSeen
from ropewalk.serving.report import ServerReport
from ropewalk.units import MIB

MAX_SAMPLES = 240  # per arm, beside the named ones: enough for a curve
# A larger block is mapped by itself, a smaller one may share an arena: glibc malloc/malloc.c,
# DEFAULT_MMAP_THRESHOLD_MAX on 64 bits.
_OWN_MAPPING_BYTES = 32 * MIB
_BUFFERS = ("kv_cache", "state", "output_buffer", "compute_buffer")  # anonymous memory, printed by name


def memory_terms(
    memory: Memory,
    report: ServerReport,
    *,
    inspection: Inspection,
    loaded: Sequence[Region],
    longest: MemorySample | None,
) -> tuple[MemoryTermSeen, ...]:
    """Every planned term: planned, printed, measured.

    ``loaded`` are the mappings right after loading, when caches are resident and compute buffers are not
    yet; ``longest`` the sample after the longest prompt. Measured is None where a term cannot be told
    apart from outside: on a GPU, and for buffers that share a mapping.
    """
    seen = []
    for term in memory.terms:
        printed = report.printed(term.name)
        measured, how = _measured(term.name, report, inspection, loaded, longest)
        seen.append(
            MemoryTermSeen(
                name=term.name,
                planned_bytes=term.bytes,
                printed_bytes=printed.bytes if printed else None,
                measured_bytes=measured,
                how=how if measured is not None else None,
            )
        )
    return tuple(seen)


def thinned(samples: Sequence[MemorySample]) -> tuple[MemorySample, ...]:
    """All named samples and at most ``MAX_SAMPLES`` of the others, evenly."""
    step = -(-len(samples) // MAX_SAMPLES)
    return tuple(
        sample
        for index, sample in enumerate(samples)
        if index % step == 0 or not sample.moment.startswith("t=")
    )


def _measured(
    name: str,
    report: ServerReport,
    inspection: Inspection,
    loaded: Sequence[Region],
    longest: MemorySample | None,
) -> tuple[int | None, str]:
    if not report.buffers or any(not buffer.device.startswith("CPU") for buffer in report.buffers):
        return None, ""
    if name == "weights":
        return resident_of_files(loaded, ".gguf"), "resident pages of the mapped file, after loading"
    if name == "kv_cache" and _has_own_mapping(report, inspection):
        return largest_anonymous(loaded), "resident pages of the largest anonymous mapping, after loading"
    if name == "process_overhead" and longest is not None:
        printed = [report.printed(buffer) for buffer in _BUFFERS]
        buffers = sum(term.bytes for term in printed if term)
        how = "anonymous memory after the longest prompt, less the buffers printed"
        return longest.anon_bytes - buffers, how
    return None, ""


def _has_own_mapping(report: ServerReport, inspection: Inspection) -> bool:
    """Whether the cache is one buffer, since all layers keep alike, and too large to share a mapping."""
    printed = report.printed("kv_cache")
    kinds = {(group.kind, group.window) for group in inspection.layers}
    return len(kinds) == 1 and printed is not None and printed.bytes > _OWN_MAPPING_BYTES
