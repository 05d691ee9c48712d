"""One module per engine: the only places that know how an engine rounds, pads and reserves."""

from __future__ import annotations

from ropewalk.planner.engines.rules import EngineRules, PlanningCase, rules_of

__all__ = ["EngineRules", "PlanningCase", "rules_of"]
