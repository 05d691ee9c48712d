"""Has the engine work out its own memory without reading weights, and holds a plan against its answer.

llama.cpp makes its model and its context without allocating (``no_alloc``, which its own ``--fit`` uses) and
prints every size; vLLM runs its configuration checks and its cache planning on a model without storage.
Both run in a process of their own, a moment for llama.cpp, some ten seconds of imports for vLLM.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from typing import Protocol, cast

from ropewalk.engines import EngineBuild, engine_of
from ropewalk.errors import EngineError
from ropewalk.findings import Finding, by_severity
from ropewalk.planner.plan import verdict
from ropewalk.planner.records import Launch, Memory, MemoryTerm, Plan
from ropewalk.planner.terms import CACHES
from ropewalk.serving.engines import launch_of
from ropewalk.serving.server_report import EngineAnswer, PrintedTerm
from ropewalk.units import format_bytes


class DryRun(Protocol):
    """The functions of an engine's module ``dry_run``."""

    def why_not(self, plan: Plan, build: EngineBuild) -> str | None:
        """Why this build cannot be asked about this plan; None where it can."""
        ...

    def ask(self, launch: Launch, plan: Plan) -> EngineAnswer:
        """The engine's own figures. Raises :class:`EngineError` where it does not answer."""
        ...


def dry_run_of(engine: str) -> DryRun:
    """The functions that ask an engine."""
    return cast("DryRun", import_module(f"{engine_of(engine).room}.dry_run"))


def confirmed(plan: Plan, answer: EngineAnswer) -> Plan:
    """Take over what the engine says of one device; every difference is a finding with both figures."""
    if answer.refusal is not None:
        refused = Finding(
            "engine_refuses",
            "error",
            f"{plan.request.engine} would not start: {answer.refusal}",
            {"engine": plan.request.engine, "reason": answer.refusal},
        )
        return replace(plan, findings=by_severity((*plan.findings, refused)))
    figures = {term.name: term for term in answer.terms}
    terms, differences = [], [*_cache_differences(plan, answer), *_count_differences(plan, answer)]
    for term in plan.memory.terms:
        figure = figures.get(term.name) or _pooled(term, plan, answer)
        if figure is not None:
            differences += _term_differences(term, figure)
            term = _taken(term, figure, answer.source)
        terms.append(term)
    return _with_terms(plan, terms, differences)


def _pooled(term: MemoryTerm, plan: Plan, answer: EngineAnswer) -> PrintedTerm | None:
    """A cache out of the pool that the engine gave one figure for: told apart if it is alone or all agree."""
    if answer.cache_bytes is None or term.name not in CACHES:
        return None
    others = _cache_bytes(plan.memory) - term.bytes
    if others and answer.cache_bytes != _cache_bytes(plan.memory):
        return None
    return PrintedTerm(term.name, answer.cache_bytes - others, 0)


def _taken(term: MemoryTerm, figure: PrintedTerm, source: str) -> MemoryTerm:
    """The term on the engine's word. Our own bytes stay where they are within its rounding."""
    if _agree(term, figure) and term.low_bytes == term.high_bytes:
        return replace(term, basis="dry_run", source=source)
    size, slack = figure.bytes, figure.rounding_bytes
    return replace(
        term,
        bytes=size,
        low_bytes=max(size - slack, 0),
        high_bytes=size + slack,
        basis="dry_run",
        source=source,
    )


def _agree(term: MemoryTerm, figure: PrintedTerm) -> bool:
    return term.low_bytes - figure.rounding_bytes <= figure.bytes <= term.high_bytes + figure.rounding_bytes


def _term_differences(term: MemoryTerm, figure: PrintedTerm) -> list[Finding]:
    if _agree(term, figure):
        return []
    ours = format_bytes(term.bytes)
    if term.low_bytes < term.high_bytes:
        ours = f"{format_bytes(term.low_bytes)} to {format_bytes(term.high_bytes)}"
    return [_differs(term.name, ours, format_bytes(figure.bytes), term.bytes, figure.bytes)]


def _cache_differences(plan: Plan, answer: EngineAnswer) -> list[Finding]:
    """The pool as a whole, where its parts cannot be told apart."""
    ours = _cache_bytes(plan.memory)
    caches = [term for term in plan.memory.terms if term.name in CACHES]
    if answer.cache_bytes in (None, ours) or len(caches) == 1:
        return []
    size = answer.cache_bytes or 0
    return [_differs("all caches", format_bytes(ours), format_bytes(size), ours, size)]


def _count_differences(plan: Plan, answer: EngineAnswer) -> Iterable[Finding]:
    for name, count in answer.counts:
        ours = getattr(plan.memory.kv, name)
        if ours != count:
            yield _differs(name, f"{ours:g}", f"{count:g}", ours, count)


def _differs(name: str, ours: str, theirs: str, planned: float, engine: float) -> Finding:
    return Finding(
        "dry_run_differs",
        "warning",
        f"{name}: planned {ours}, the engine says {theirs}; its figure is taken",
        {"term": name, "planned": planned, "engine": engine},
    )


def _cache_bytes(memory: Memory) -> int:
    return sum(term.bytes for term in memory.terms if term.name in CACHES)


def _with_terms(plan: Plan, terms: list[MemoryTerm], differences: list[Finding]) -> Plan:
    """Sums, the one device's share and the verdict, anew."""
    assert plan.launch is not None  # noqa: S101 - only a launch is confirmed
    total, high = sum(term.bytes for term in terms), sum(term.high_bytes for term in terms)
    (share,) = plan.memory.per_device
    share = replace(
        share,
        weights_bytes=sum(term.bytes for term in terms if term.name == "weights"),
        kv_bytes=sum(term.bytes for term in terms if term.name in CACHES),
        total_bytes=total,
        high_bytes=high,
        fits=None if plan.fit.usable_bytes is None else high <= plan.fit.usable_bytes,
    )
    memory = replace(plan.memory, terms=tuple(terms), total_bytes=total, high_bytes=high, per_device=(share,))
    fit = replace(plan.fit, fits=share.fits)
    kept = (finding for finding in plan.findings if finding.code != "does_not_fit")
    return replace(
        plan,
        memory=memory,
        fit=fit,
        launch=replace(plan.launch, confirmed_by="engine"),
        findings=by_severity((*kept, *differences, *verdict(memory, fit))),
    )


def confirm_plan(plan: Plan, *, build: EngineBuild | None) -> Plan:
    """The plan with the engine's own figures, and ``launch.confirmed_by`` set to ``engine``.

    A term that the engine confirms gets the basis ``dry_run``; where it says something else its figure is
    taken, with a finding ``dry_run_differs``. An engine that refuses is a finding ``engine_refuses``. Where
    it cannot be asked, ``dry_run_unavailable`` says why, and the plan stays as it is.
    """
    if plan.launch is None:
        return plan  # refused, or for an engine that nobody serves with
    reason = _why_not(plan, build)
    if reason is not None or build is None:
        return _unavailable(plan, reason or "")
    try:
        answer = dry_run_of(build.engine).ask(launch_of(plan, build=build), plan)
    except EngineError as error:
        return _unavailable(plan, error.message)
    return confirmed(plan, answer)


def _why_not(plan: Plan, build: EngineBuild | None) -> str | None:
    if build is None:
        return f"no {plan.request.engine} is installed here"
    if build.version != plan.request.engine_version:
        return f"the plan is for version {plan.request.engine_version}, {build.version} is installed"
    if len(plan.memory.per_device) > 1:
        return "it is asked for one device only"
    if not engine_of(build.engine).answers_dry_run:
        return f"{build.engine} has no option for it"
    return dry_run_of(build.engine).why_not(plan, build)


def _unavailable(plan: Plan, reason: str) -> Plan:
    finding = Finding(
        "dry_run_unavailable",
        "info",
        f"{plan.request.engine} was not asked to confirm the plan: {reason}",
        {"engine": plan.request.engine},
    )
    return replace(plan, findings=by_severity((*plan.findings, finding)))
