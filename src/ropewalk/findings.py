"""What is worth telling about an input: one form everywhere, in every record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]
_ORDER: dict[str, int] = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation with a stable ``code``; ``where`` names the places and the values that disagree."""

    code: str
    severity: Severity
    message: str
    where: dict[str, Any] = field(default_factory=dict)


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors first, then warnings, then information; the order of discovery within each."""
    return tuple(sorted(findings, key=lambda finding: _ORDER[finding.severity]))


def has_error(findings: Iterable[Finding]) -> bool:
    """Whether any finding is an error: the negative verdict of ``inspect`` and ``check``."""
    return any(finding.severity == "error" for finding in findings)
