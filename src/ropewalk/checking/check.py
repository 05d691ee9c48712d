"""A command line in, a verdict out: what the engine makes of it, what is wrong, and how it should read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ropewalk.checking.analysis import Analysis
from ropewalk.checking.argv import read_command
from ropewalk.checking.checker import checker_of
from ropewalk.checking.command import Command
from ropewalk.checking.diagnostics import correct
from ropewalk.checking.records import CheckResult, Corrected, Unjudged
from ropewalk.findings import Finding, by_severity, has_error
from ropewalk.inspector.records import Inspection
from ropewalk.planner.machine import Machine
from ropewalk.planner.verdict import errors_of

_UNKNOWN = Machine()
_ROUNDS = 6


def check_command(
    argv: Sequence[str],
    *,
    inspection: Inspection | None = None,
    engine_version: str | None = None,
    machine: Machine = _UNKNOWN,
    unread: str | None = None,
) -> CheckResult:
    """Judge a command line by the engine's own rules.

    ``argv`` are its words, or one string as typed into a shell. Without ``inspection`` only what the
    command itself shows is judged; ``unread`` says why the model could not be read. ``engine_version`` is the
    version whose rules apply (the newest known one by default), ``machine`` what is known of the devices:
    without its memory the verdict is open. Nothing is started or read. Raises :class:`UsageError` for a
    command that starts no engine.
    """
    command = read_command(argv)
    checker = checker_of(command.engine)
    version = engine_version or command.engine_version

    def analyze(command: Command) -> Analysis:
        return checker.analyze(command, inspection, version=version, machine=machine)

    analysis = analyze(command)
    not_judged = _not_judged(analysis, inspection)
    findings = by_severity(
        [
            *(item.finding for item in analysis.diagnostics),
            *_from_inspection(inspection),
            *_open_questions(analysis, not_judged, unread),
        ]
    )
    return CheckResult(
        engine=command.engine,
        engine_version=version,
        rules_version=checker.rules_version(),
        model=analysis.model,
        parsed=analysis.parsed,
        resolved=analysis.resolved,
        corrected=None if has_error(_from_inspection(inspection)) else _corrected(command, analysis, analyze),
        findings=findings,
        not_judged=not_judged,
        ok=False if has_error(findings) else None if not_judged else True,
    )


def _not_judged(analysis: Analysis, inspection: Inspection | None) -> tuple[Unjudged, ...]:
    open_questions: list[Unjudged] = [] if inspection else ["model"]
    return (*open_questions, *(() if analysis.memory_judged else ("memory",)))


def _from_inspection(inspection: Inspection | None) -> Iterator[Finding]:
    """Errors of the checkpoint are errors of whatever serves it."""
    for finding in errors_of(inspection):
        fix = {"fix": "repair the checkpoint: no option of the server does"}
        yield replace(finding, where={**fix, **finding.where})


def _open_questions(
    analysis: Analysis, not_judged: Sequence[Unjudged], unread: str | None
) -> Iterator[Finding]:
    """What the verdict is open for, and what would settle it."""
    if "model" in not_judged:
        why = f" ({unread})" if unread else ""
        yield Finding(
            "checkpoint_not_read",
            "info",
            f"lengths, memory and rope scaling are not judged: the model was not read{why}",
            {"model": analysis.model, "fix": "add --checkpoint"},
        )
    elif "memory" in not_judged and all(
        item.finding.code != "memory_unknown" for item in analysis.diagnostics
    ):
        yield Finding(
            "memory_unknown",
            "info",
            "memory is not judged: the size of the device is not known",
            {"fix": "add --memory SIZE or --gpu NAME"},
        )


def _corrected(
    command: Command, analysis: Analysis, analyze: Callable[[Command], Analysis]
) -> Corrected | None:
    """The repaired command, judged again until nothing changes: one repair may bring another to light."""
    original = command
    # What may or may not fit is left as it is, unless it is a repair that came to that.
    shrinks = any(item.finding.code == "does_not_fit" for item in analysis.diagnostics)
    for _ in range(_ROUNDS):
        open_ends = () if shrinks else ("memory_unknown",)
        wanted = [item for item in analysis.diagnostics if item.finding.code not in open_ends]
        repaired = correct(command, analysis.options, wanted)
        if repaired is None:
            return None
        is_settled = (repaired.argv, repaired.env) == (command.argv, command.env)
        command, analysis = repaired, analyze(repaired)
        if is_settled:
            break
    if has_error(item.finding for item in analysis.diagnostics):
        return None
    return Corrected(
        argv=command.argv,
        env=command.env,
        command=command.shell(),
        changed=(command.argv, command.env) != (original.argv, original.env),
    )


def model_source(argv: Sequence[str]) -> str | None:
    """What a command line serves, to be opened where it is at hand; None where that cannot be told.

    A path inside a container is none of this machine's. Raises :class:`UsageError` as
    :func:`check_command` does.
    """
    command = read_command(argv)
    model = checker_of(command.engine).model_of(command)
    if model is not None and command.container_env is not None and model.startswith(("/", "./", "~")):
        return None
    return model
