"""What the judge of one engine hands on: the words as grouped, what they come to, and the remarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ropewalk.checking.diagnostics import Remark
from ropewalk.checking.parsed_option import Given
from ropewalk.checking.records import Resolved


@dataclass(frozen=True, slots=True)
class Judgement:
    """``model`` is what the command serves, as written."""

    given: tuple[Given, ...]
    model: str | None
    parsed: dict[str, Any]
    resolved: Resolved
    remarks: tuple[Remark, ...]
