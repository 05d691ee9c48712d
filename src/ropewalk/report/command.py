"""A command line folded for reading and pasting: every word as it was written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ropewalk.checking.shell import Word, split


def fold(command: str, *, width: int) -> str:
    """Break at flags with a backslash where a line would pass ``width``; values stay with their flag."""
    lines = [""]
    for group in _groups(split(command)):
        text = " ".join(group)
        if lines[-1] and len(lines[-1]) + len(text) + 3 > width:
            lines.append(f"  {text}")
        else:
            lines[-1] = f"{lines[-1]} {text}" if lines[-1] else text
    return " \\\n".join(lines)


def _groups(words: Sequence[Word]) -> Iterator[list[str]]:
    """Assignments, program and subcommand together, then each flag with its values."""
    group: list[str] = []
    for word in words:
        if word.startswith("-") and group:
            yield group
            group = []
        group.append(word.raw)
    yield group
