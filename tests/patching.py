"""A function of the core replaced, for the front ends and for the core's own modules that call it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import ropewalk.core  # noqa: F401  # its modules are there


def patch_core(monkeypatch: pytest.MonkeyPatch, name: str, function: Callable[..., Any]) -> None:
    for module, found in list(sys.modules.items()):
        if f"{module}.".startswith("ropewalk.core.") and hasattr(found, name):
            monkeypatch.setattr(found, name, function)
