"""Measured and published figures from the reference material, as values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def rows(shared: Path, name: str) -> list[dict[str, Any]]:
    """The rows of one file of ``ground_truth``."""
    found: list[dict[str, Any]] = json.loads((shared / "ground_truth" / name).read_text("utf-8"))
    assert found
    return found


def option(command: str, flag: str, default: str) -> str:
    """The value after ``flag`` on a command line."""
    words = command.split()
    return words[words.index(flag) + 1] if flag in words else default
