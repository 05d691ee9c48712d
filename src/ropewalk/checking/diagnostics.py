"""A finding together with the change to the command line that would settle it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ropewalk.checking.argv import Command
from ropewalk.checking.parsed_option import ParsedOption
from ropewalk.checking.records import Corrected
from ropewalk.errors import RopewalkError
from ropewalk.findings import Finding, Severity

Edits = Mapping[str, tuple[str, ...] | None]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """What is told, and what to write instead: by option name, its new words (None removes it)."""

    finding: Finding
    edits: Edits = field(default_factory=dict)


def remark(
    code: str, severity: Severity, message: str, *, fix: str, edits: Edits | None = None, **where: Any
) -> Diagnostic:
    """A remark whose finding carries its remedy as ``where["fix"]``."""
    return Diagnostic(Finding(code, severity, message, {**where, "fix": fix}), edits or {})


def unpriced(error: RopewalkError) -> Diagnostic:
    """Memory that cannot be planned: a dimension that the checkpoint does not tell, say."""
    return Diagnostic(
        Finding("memory_unknown", "info", error.message, {**error.where, "fix": "none is known"})
    )


def correct(
    command: Command, given: Sequence[ParsedOption], remarks: Iterable[Diagnostic]
) -> Corrected | None:
    """The command with every edit applied; None where an error comes with no edit."""
    edits: dict[str, tuple[str, ...] | None] = {}
    for item in remarks:
        if item.finding.severity == "error" and not item.edits:
            return None
        edits.update(item.edits)
    env = {name: value for name, value in command.env.items() if not _replaced(name, given, edits)}
    argv = (*command.prefix, *_edited(given, edits))
    changed = (argv, env) != (command.argv, command.env)
    return Corrected(argv=argv, env=env, command=_shell(argv, env), changed=changed)


def _edited(given: Sequence[ParsedOption], edits: Edits) -> list[str]:
    """First occurrences are replaced where they stand, later ones dropped, new options appended."""
    words: list[str] = []
    done: set[str] = set()
    for item in given:
        if item.env:
            continue
        if item.name not in edits:
            words += item.words
        elif item.name not in done:
            done.add(item.name)
            words += edits[item.name] or ()
    for name, new in edits.items():
        if name not in done:
            words += new or ()
    return words


def _replaced(variable: str, given: Sequence[ParsedOption], edits: Edits) -> bool:
    return any(item.env == variable and item.name in edits for item in given)


def _shell(argv: Sequence[str], env: Mapping[str, str]) -> str:
    assignments = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    return " ".join([*assignments, shlex.join(argv)])
