"""A command line folded for reading and pasting: it parses back to the very same words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


def fold(command: str, *, width: int) -> str:
    """Break at flags with a backslash where a line would pass ``width``; values stay with their flag."""
    lines = [""]
    for group in _groups(shlex.split(command)):
        text = " ".join(group)
        if lines[-1] and len(lines[-1]) + len(text) + 3 > width:
            lines.append(f"  {text}")
        else:
            lines[-1] = f"{lines[-1]} {text}" if lines[-1] else text
    return " \\\n".join(lines)


def _groups(words: Sequence[str]) -> Iterator[list[str]]:
    """Assignments, program and subcommand together, then each flag with its values; all quoted."""
    group: list[str] = []
    program_seen = False
    for word in words:
        assignment = None if program_seen else _ASSIGNMENT.fullmatch(word)
        program_seen = assignment is None
        if word.startswith("-") and group:
            yield group
            group = []
        # ``shlex.quote`` on all of NAME=VALUE would turn an assignment into the name of a program.
        group.append(f"{assignment[1]}={shlex.quote(assignment[2])}" if assignment else shlex.quote(word))
    yield group
