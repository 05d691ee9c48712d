"""A command line in, a verdict out: what the engine makes of it, what is wrong, and how it should read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ropewalk.checking import llama_argv as llama_words
from ropewalk.checking import llama_check, vllm_check
from ropewalk.checking import vllm_argv as vllm_words
from ropewalk.checking.analysis import Analysis
from ropewalk.checking.argv import Command, read_command
from ropewalk.checking.diagnostics import correct
from ropewalk.checking.flags import flag_set
from ropewalk.checking.records import CheckResult, Corrected
from ropewalk.findings import Finding, by_severity, has_error
from ropewalk.inspector.records import Inspection
from ropewalk.planner.machine import Machine

_UNKNOWN = Machine()
_ROUNDS = 4


def check_command(
    argv: Sequence[str],
    *,
    inspection: Inspection | None = None,
    engine_version: str | None = None,
    machine: Machine = _UNKNOWN,
) -> CheckResult:
    """Judge a command line by the engine's own rules.

    ``argv`` are its words, or one string as typed into a shell. Without ``inspection`` only what the
    command itself shows is judged: lengths, bytes and rope scaling stay unknown. ``engine_version`` is the
    version whose rules apply (the newest known one by default), ``machine`` what is known of the devices.
    Nothing is started or read. Raises :class:`UsageError` for a command that starts neither engine.
    """
    command = read_command(argv)
    version = engine_version or command.engine_version
    flags = flag_set(command.engine)

    def analyze(command: Command) -> Analysis:
        analyze = vllm_check.analyze if command.engine == "vllm" else llama_check.analyze
        return analyze(command, inspection, flags=flags, version=version, machine=machine)

    judgement = analyze(command)
    told = [remark.finding for remark in judgement.remarks]
    findings = by_severity(told if inspection else [*told, _not_read(judgement.model)])
    return CheckResult(
        engine=command.engine,
        engine_version=version,
        rules_version=flags.version,
        model=judgement.model,
        parsed=judgement.parsed,
        resolved=judgement.resolved,
        corrected=_corrected(command, judgement, analyze),
        findings=findings,
        ok=not has_error(findings),
    )


def _corrected(
    command: Command, judgement: Analysis, analyze: Callable[[Command], Analysis]
) -> Corrected | None:
    """The repaired command, judged again: one repair may bring another error to light."""
    original = (command.argv, command.env)
    for _ in range(_ROUNDS):
        corrected = correct(command, judgement.given, judgement.remarks)
        if corrected is None:
            return None
        command = command.with_words(corrected.argv, corrected.env)
        judgement = analyze(command)
        if not has_error(remark.finding for remark in judgement.remarks):
            return replace(corrected, changed=(corrected.argv, corrected.env) != original)
    return None


def _not_read(model: str | None) -> Finding:
    return Finding(
        "checkpoint_not_read",
        "info",
        "lengths, bytes and rope scaling are not judged: they depend on the checkpoint",
        {"model": model, "fix": "give --checkpoint"},
    )


def model_source(argv: Sequence[str]) -> str | None:
    """What a command line serves, to be opened where it is at hand; None where that cannot be told.

    A path inside a container is none of this machine's. Raises :class:`UsageError` as
    :func:`check_command` does.
    """
    command = read_command(argv)
    if command.container_env is not None:
        return None
    flags = flag_set(command.engine)
    if command.engine == "vllm":
        parsed, _ = vllm_words.read_values(vllm_words.read_words(command.arguments, flags), flags, None)
        return vllm_check.model_of(parsed)
    given = llama_words.read_words(command.arguments, command.engine_env, flags)
    parsed, _ = llama_words.read_values(given, flags, None)
    return llama_check.model_of(parsed)
