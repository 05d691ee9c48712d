"""One module per engine: the only places that know how an engine rounds, pads and reserves."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from ropewalk.engines import engine_of
from ropewalk.planner.engines.rules import EngineRules

__all__ = ["EngineRules", "rules_of"]


def rules_of(engine: str) -> EngineRules:
    """The engine's functions of :class:`EngineRules`. Raises :class:`UsageError` for an unknown engine."""
    return cast("EngineRules", import_module(engine_of(engine).rules))
