"""``man/ropewalk.1``: the manual page, from the commands themselves; the wheel carries it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docs.cli import ENVIRONMENT, Said, said_of
from ropewalk._version import __version__
from ropewalk.cli.app import COMMANDS, COMPLETION, EXIT_STATUS, app


def man_page() -> str:
    """The page in the ``man`` macros, section 1."""
    name, _, about = (app.help or "").partition("\n\n")
    lines = [
        f'.TH ROPEWALK 1 "" "ropewalk {__version__}" "User commands"',
        *(".SH NAME", f"ropewalk \\- {_text(name)}"),
        *(".SH SYNOPSIS", ".B ropewalk", r"\fICOMMAND\fR [\fIOPTION\fR]... [\fIARGUMENT\fR]..."),
        *(".SH DESCRIPTION", _text(" ".join(about.split()))),
        *(".PP", "Every command takes", r"\fB\-\-help\fR and \fB\-\-debug\fR."),
    ]
    for heading, section in COMMANDS.items():
        lines.append(f".SH {_text(heading.upper())}")
        lines += [line for command in section for said in said_of(command) for line in _command(said)]
    lines.append(".SH ENVIRONMENT")
    lines += [line for name, text in ENVIRONMENT.items() for line in _item(name, text)]
    lines += [".SH EXIT STATUS", *_verbatim(EXIT_STATUS), ".SH SHELL COMPLETION", *_verbatim(COMPLETION)]
    return "\n".join(lines)


def _command(said: Said) -> Iterator[str]:
    yield f".SS {_text(said.usage)}"
    for paragraph in said.text.strip().split("\n\n"):
        yield from (_text(paragraph), ".PP")
    for group, records in said.groups.items():
        yield rf"\fI{_text(group)}\fR"
        for flags, text in records:
            yield from _item(flags, text)
        yield ".PP"
    yield from ("Examples:", *_verbatim(said.examples)) if said.examples else ()


def _item(term: str, text: str) -> list[str]:
    return [".TP", rf"\fB{_text(term)}\fR", _text(text)]


def _verbatim(text: str) -> list[str]:
    return [".RS", ".nf", *map(_text, text.strip().splitlines()), ".fi", ".RE"]


def _text(text: str) -> str:
    """Text as roff shows it: hyphens that can be copied, no line that is taken for a request."""
    escaped = re.sub(r"[\\-]", lambda found: {"\\": "\\e", "-": "\\-"}[found[0]], text.strip())
    escaped = escaped.replace("'", "\\(aq").replace("`", "\\(ga")
    return f"\\&{escaped}" if escaped.startswith(".") else escaped
