"""A server's log beside what the planner makes of its command, term by term."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ropewalk.checking import CheckResult, check_command
from ropewalk.checking.foreign_log import ForeignLog
from ropewalk.findings import Finding, by_severity, has_error
from ropewalk.inspector.records import Inspection
from ropewalk.planner.machine import Machine
from ropewalk.planner.records import DeviceShare, Memory
from ropewalk.serving.server_report import term_of

# What an engine allocates by rule: to print another size is to contradict the plan. Others are estimates.
_RULED = frozenset({"kv_cache", "state", "context_per_request", "num_sequences", "kv_cells"})


@dataclass(frozen=True, slots=True)
class LogTerm:
    """One figure planned and printed; ``agrees`` is None where either is unknown.

    ``printed`` is known within ``rounding``; it agrees where that overlaps what is planned.
    """

    name: str
    planned_low: int | None
    planned_high: int | None
    printed: int | None
    rounding: int
    agrees: bool | None


@dataclass(frozen=True, slots=True)
class LogReport:
    """A log read: ``lengths`` in tokens and sequences, ``memory`` in bytes.

    ``command`` are the words that were judged, None where none is known: nothing is planned then.
    ``command_from`` says whether they stood in the ``log`` or were ``given``.
    """

    log: str
    engine: str
    engine_version: str | None
    command: tuple[str, ...] | None
    command_from: str | None
    lengths: tuple[LogTerm, ...]
    memory: tuple[LogTerm, ...]
    check: CheckResult | None
    findings: tuple[Finding, ...]
    ok: bool
    schema: str = "ropewalk.logreport/1"


def log_report(
    log: ForeignLog, *, path: str, command: Sequence[str] | None, inspection: Inspection | None
) -> LogReport:
    """Plan what the command asks for and lay the log beside it.

    ``command`` goes before the one in the log; ``inspection`` is of the model that was served. Raises
    :class:`UsageError` for a command that starts neither engine.
    """
    words = tuple(command) if command else log.command
    machine = Machine(kind=log.device, memory_bytes=log.memory_bytes, count=log.device_count)
    check = None
    if words:
        check = check_command(words, inspection=inspection, engine_version=log.version, machine=machine)
    lengths = tuple(_lengths(log, check, _pool_cells(log, words, inspection, machine)))
    memory = tuple(_memory(log, check))
    found = [
        *_findings(log, check, words),
        *(
            _differs(term, ruled=term.name in _RULED and not (term in lengths and _fitted(check)))
            for term in (*lengths, *memory)
            if term.agrees is False
        ),
    ]
    findings = by_severity([*found, *(check.findings if check else ())])
    return LogReport(
        log=path,
        engine=log.engine,
        engine_version=log.version,
        command=words,
        command_from=("given" if command else "log") if words else None,
        lengths=lengths,
        memory=memory,
        check=check,
        findings=findings,
        ok=not has_error(findings),
    )


def _lengths(log: ForeignLog, check: CheckResult | None, cells: tuple[int, int] | None) -> Iterator[LogTerm]:
    resolved = check.resolved if check else None
    context = resolved.context_per_request if resolved else None
    fitted = _fitted(check)
    yield _term("context_per_request", fitted or (context, context), log.context_len)
    sequences = resolved.num_sequences if resolved else None
    yield _term("num_sequences", (sequences, sequences), log.num_sequences)
    yield _term("kv_cells", fitted or cells or (None, None), log.cells)
    if log.batched_tokens is not None:
        asked = check.parsed.get("--max-num-batched-tokens") if check else None
        planned = asked if isinstance(asked, int) else None
        yield _term("batched_tokens", (planned, planned), log.batched_tokens)


def _fitted(check: CheckResult | None) -> tuple[int, int] | None:
    """The range of a context that the engine itself fits to what it finds free; None where it does not."""
    for finding in check.findings if check else ():
        if finding.code == "context_may_shrink" and isinstance(finding.where.get("low"), int):
            return finding.where["low"], finding.where["high"]
    return None


def _pool_cells(
    log: ForeignLog, words: Sequence[str] | None, inspection: Inspection | None, machine: Machine
) -> tuple[int, int] | None:
    """Tokens that the cache has room for: as the command says, or as the pool that was printed holds.

    vLLM sizes its pool by what it finds free, which no plan knows; what the pool holds is a matter of rule.
    """
    if not words:
        return None

    def cells(*more: str) -> int | None:
        line = (f"{words[0]} {' '.join(more)}",) if len(words) == 1 else (*words, *more)
        check = check_command(line, inspection=inspection, engine_version=log.version, machine=machine)
        return check.resolved.kv_cells

    fixed = cells()
    if fixed is not None:
        return fixed, fixed
    if log.pool is None:
        return None
    ends = (log.pool.bytes - log.pool.rounding_bytes, log.pool.bytes + log.pool.rounding_bytes)
    low, high = (cells("--kv-cache-memory-bytes", str(end)) for end in ends)
    return None if low is None or high is None else (low, high)


def _memory(log: ForeignLog, check: CheckResult | None) -> Iterator[LogTerm]:
    """Every planned term, and what was printed besides; vLLM's pool is not planned but found."""
    memory = check.resolved.memory if check else None
    planned = _planned(memory, log) if memory else {}
    if log.finds_pool:
        planned.pop("kv_cache", None)
    for name in dict.fromkeys((*planned, *(buffer.name for buffer in log.buffers))):
        seen = term_of(log.buffers, name)
        rounding = seen.rounding_bytes if seen else 0
        yield _term(name, planned.get(name, (None, None)), seen.bytes if seen else None, rounding)
    if log.pool:
        yield _term("kv_cache", (None, None), log.pool.bytes, log.pool.rounding_bytes)


def _planned(memory: Memory, log: ForeignLog) -> dict[str, tuple[int | None, int | None]]:
    """Ends of each planned term under the name that the log has for it.

    Where fewer ranks printed than were planned, they are held against as many of the planned ones.
    """
    names = {part: name for name, parts in log.sums.items() for part in parts}
    ends: dict[str, tuple[int | None, int | None]] = {}
    for term in memory.terms:
        name = names.get(term.name, term.name)
        low, high = ends.get(name, (0, 0))
        ends[name] = ((low or 0) + term.low_bytes, (high or 0) + term.high_bytes)
    ranks = len(memory.per_device)
    for name in ends if log.finds_pool and ranks > 1 else ():
        printed = sum(buffer.name == name for buffer in log.buffers)
        if 0 < printed < ranks:
            each = [_of_device(share, name, names) for share in memory.per_device]
            ends[name] = (printed * min(low for low, _ in each), printed * max(high for _, high in each))
    return ends


def _of_device(share: DeviceShare, name: str, names: Mapping[str, str]) -> tuple[int, int]:
    terms = [term for term in share.terms if names.get(term.name, term.name) == name]
    return sum(term.low_bytes for term in terms), sum(term.high_bytes for term in terms)


def _term(
    name: str, planned: tuple[int | None, int | None], printed: int | None, rounding: int = 0
) -> LogTerm:
    low, high = planned
    agrees = None
    if low is not None and high is not None and printed is not None:
        agrees = low - rounding <= printed <= high + rounding
    return LogTerm(name, low, high, printed, rounding, agrees)


def _findings(log: ForeignLog, check: CheckResult | None, words: Sequence[str] | None) -> Iterator[Finding]:
    if log.error:
        yield Finding("engine_failed", "error", f"the server gave up: {log.error}", {})
    if words is None:
        fix = {"fix": "give the command line with --command"}
        yield Finding("command_unknown", "warning", "the log does not tell what was started", fix)
    if check and check.engine != log.engine:
        message = f"the command starts {check.engine}, the log is of {log.engine}"
        yield Finding("engine_differs", "error", message, {"command": check.engine, "log": log.engine})


def _differs(term: LogTerm, *, ruled: bool) -> Finding:
    """``ruled``: the engine comes to it by rule, so that another figure contradicts the plan."""
    planned = " to ".join(
        dict.fromkeys(f"{end:,}" for end in (term.planned_low, term.planned_high) if end is not None)
    )
    return Finding(
        "printed_differs",
        "error" if ruled else "info",
        f"{term.name}: {planned} planned, {term.printed:,} printed",
        {"term": term.name, "planned": [term.planned_low, term.planned_high], "printed": term.printed},
    )
