"""What the checker of one engine hands on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ropewalk.checking.diagnostics import Diagnostic
from ropewalk.checking.parsed_option import ParsedOption
from ropewalk.checking.records import Resolved


@dataclass(frozen=True, slots=True)
class Analysis:
    """A command as its engine reads it: ``model`` is what it serves, as written, ``parsed`` every option with
    the value read. ``memory_judged`` says whether the server was held against the memory of its device."""

    options: tuple[ParsedOption, ...]
    model: str | None
    parsed: dict[str, Any]
    resolved: Resolved
    diagnostics: tuple[Diagnostic, ...]
    memory_judged: bool = False
