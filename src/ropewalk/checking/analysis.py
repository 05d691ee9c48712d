"""What the judge of one engine hands on: the words as grouped, what they come to, and the remarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ropewalk.checking.diagnostics import Diagnostic
from ropewalk.checking.parsed_option import ParsedOption
from ropewalk.checking.records import Resolved


@dataclass(frozen=True, slots=True)
class Analysis:
    """``model`` is what the command serves, as written."""

    given: tuple[ParsedOption, ...]
    model: str | None
    parsed: dict[str, Any]
    resolved: Resolved
    remarks: tuple[Diagnostic, ...]
