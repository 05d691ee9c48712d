"""The plan's memory beside the engine's own figures and what was seen from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.inspector.records import Inspection
from ropewalk.measuring.records import MemoryTermSeen
from ropewalk.planner.records import Memory, MemoryTerm
from ropewalk.serving.host.process_memory import MemorySample, Region, largest_anonymous, resident_of_files
from ropewalk.serving.server_report import ServerReport
from ropewalk.units import MIB

MAX_SAMPLES = 240  # per arm, beside the named ones: enough for a curve
# A larger block is mapped on its own, a smaller one may share an arena: glibc malloc/malloc.c,
# DEFAULT_MMAP_THRESHOLD_MAX on 64 bits.
_OWN_MAPPING_BYTES = 32 * MIB
_CACHES = ("kv_cache", "state")  # anonymous memory that is resident as soon as the model is loaded


@dataclass(frozen=True, slots=True)
class Seen:
    """A server from outside: its mappings and its memory right after loading, and after the longest prompt.

    After loading the caches are resident and the compute buffers are not yet (llama.cpp b11549).
    """

    regions: Sequence[Region]
    loaded: MemorySample | None
    longest: MemorySample | None


def memory_terms(
    memory: Memory, report: ServerReport, *, inspection: Inspection, seen: Seen
) -> tuple[MemoryTermSeen, ...]:
    """Every planned term: planned, printed, measured; and what was seen beyond the plan, ``unexplained``.

    Measured is None where a term cannot be told apart from outside: on a GPU, and for buffers that share a
    mapping. ``unexplained`` is below zero where less was seen than planned.
    """
    is_cpu = bool(report.buffers) and all(buffer.device.startswith("CPU") for buffer in report.buffers)
    terms = [_term(term, report, inspection, seen, is_cpu=is_cpu) for term in memory.terms]
    return (*terms, *(_unexplained(memory, seen) if is_cpu else ()))


def _term(
    term: MemoryTerm, report: ServerReport, inspection: Inspection, seen: Seen, *, is_cpu: bool
) -> MemoryTermSeen:
    printed = report.printed(term.name)
    measured, how = _measured(term.name, report, inspection, seen) if is_cpu else (None, "")
    return MemoryTermSeen(
        name=term.name,
        planned_bytes=term.bytes,
        printed_bytes=printed.bytes if printed else None,
        measured_bytes=measured,
        how=how if measured is not None else None,
    )


def downsample(samples: Sequence[MemorySample]) -> tuple[MemorySample, ...]:
    """All named samples and at most ``MAX_SAMPLES`` of the others, evenly."""
    step = -(-len(samples) // MAX_SAMPLES)
    return tuple(
        sample
        for index, sample in enumerate(samples)
        if index % step == 0 or not sample.moment.startswith("t=")
    )


def _measured(name: str, report: ServerReport, inspection: Inspection, seen: Seen) -> tuple[int | None, str]:
    if name == "weights":
        return resident_of_files(seen.regions, ".gguf"), "resident pages of the mapped file, after loading"
    if name == "kv_cache" and _has_own_mapping(report, inspection):
        how = "resident pages of the largest anonymous mapping, after loading"
        return largest_anonymous(seen.regions), how
    if name == "compute_buffer" and seen.loaded and seen.longest:
        how = "growth of anonymous memory from loading to the longest prompt, less the output buffer printed"
        return seen.longest.anon_bytes - seen.loaded.anon_bytes - _printed(report, "output_buffer"), how
    if name == "process_overhead" and seen.loaded:
        how = "anonymous memory after loading, less the caches and the repacked weights printed"
        return seen.loaded.anon_bytes - _printed(report, *_CACHES) - _unmapped_weights(report), how
    return None, ""


def _printed(report: ServerReport, *names: str) -> int:
    return sum(buffer.bytes for buffer in report.buffers if buffer.name in names)


def _unmapped_weights(report: ServerReport) -> int:
    """Weights in memory of their own: rearranged for the processor (``CPU_REPACK``), or not mapped at all."""
    weights = (buffer for buffer in report.buffers if buffer.name == "weights")
    return sum(buffer.bytes for buffer in weights if "Mapped" not in buffer.device)


def _unexplained(memory: Memory, seen: Seen) -> tuple[MemoryTermSeen, ...]:
    """Anonymous memory and the mapped weights after the longest prompt, less every term of the plan."""
    weights = resident_of_files(seen.regions, ".gguf")
    if seen.longest is None or weights is None:
        return ()
    beyond = seen.longest.anon_bytes + weights - sum(term.bytes for term in memory.terms)
    how = "anonymous memory after the longest prompt and the mapped weights, less all that was planned"
    return (MemoryTermSeen("unexplained", None, None, beyond, how),)


def _has_own_mapping(report: ServerReport, inspection: Inspection) -> bool:
    """Whether the cache is one buffer, since all layers keep alike, and too large to share a mapping."""
    printed = report.printed("kv_cache")
    kinds = {(group.kind, group.window) for group in inspection.layers}
    return len(kinds) == 1 and printed is not None and printed.bytes > _OWN_MAPPING_BYTES
