"""A finding together with the change to the command line that would settle it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ropewalk.checking.command import Command
from ropewalk.checking.parsed_option import ParsedOption
from ropewalk.errors import RopewalkError
from ropewalk.findings import Finding, Severity


@dataclass(frozen=True, slots=True)
class Repair:
    """The options to write anew, by name: their words in full, none to remove one."""

    edits: Mapping[str, tuple[str, ...]]

    def __or__(self, other: Repair) -> Repair:
        return Repair({**self.edits, **other.edits})

    @property
    def text(self) -> str:
        """What to write, ready for a shell; else what to remove."""
        words = [word for edit in self.edits.values() for word in edit]
        return shlex.join(words) if words else f"remove {' '.join(self.edits)}"

    @property
    def writes(self) -> str:
        """What to write, ready for a shell; empty where options are only removed."""
        return shlex.join([word for edit in self.edits.values() for word in edit])


NO_REPAIR = Repair({})


def set_flag(flag: str, *values: object, short: str | None = None) -> Repair:
    """Write an option anew; ``short`` is the spelling to use. A switch has no value."""
    return Repair({flag: (short or flag, *map(str, values))})


def remove_flags(*flags: str) -> Repair:
    """The repair that leaves these options out of the command."""
    return Repair(dict.fromkeys(flags, ()))


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """What is found, and how the command should read instead; an empty repair changes nothing."""

    finding: Finding
    repair: Repair = NO_REPAIR


def diagnostic(
    code: str,
    severity: Severity,
    message: str,
    *,
    repair: Repair | None = None,
    flag: str | None = None,
    fix: str | None = None,
    **where: Any,
) -> Diagnostic:
    """A finding that names its option as ``where["flag"]`` and its remedy as ``where["fix"]``.

    Both are those of ``repair`` where they are not given.
    """
    repair = repair or NO_REPAIR
    named = flag or next(iter(repair.edits), None)
    flagged = {} if named is None else {"flag": named}
    return Diagnostic(
        Finding(code, severity, message, {**flagged, **where, "fix": fix or repair.text}), repair
    )


def memory_unknown(error: RopewalkError) -> Diagnostic:
    """Memory that cannot be planned: a dimension that the checkpoint does not tell, say."""
    return Diagnostic(
        Finding("memory_unknown", "info", error.message, {**error.where, "fix": "no fix is known"})
    )


def correct(
    command: Command, options: Sequence[ParsedOption], diagnostics: Iterable[Diagnostic]
) -> Command | None:
    """The command with every repair made; None where an error comes with none."""
    edits: dict[str, tuple[str, ...]] = {}
    for item in diagnostics:
        if item.finding.severity == "error" and not item.repair.edits:
            return None
        edits.update(item.repair.edits)
    env = {name: value for name, value in command.env.items() if not _replaced(name, options, edits)}
    return command.with_words((*command.prefix, *_edited(options, edits)), env)


def _edited(options: Sequence[ParsedOption], edits: Mapping[str, tuple[str, ...]]) -> list[str]:
    """First occurrences are replaced where they stand, later ones dropped, new options appended."""
    words: list[str] = []
    done: set[str] = set()
    for item in options:
        if item.env:
            continue
        if item.name not in edits:
            words += item.words
        elif item.name not in done:
            done.add(item.name)
            words += edits[item.name]
    for name, new in edits.items():
        if name not in done:
            words += new
    return words


def _replaced(variable: str, options: Sequence[ParsedOption], edits: Mapping[str, tuple[str, ...]]) -> bool:
    return any(item.env == variable and item.name in edits for item in options)
