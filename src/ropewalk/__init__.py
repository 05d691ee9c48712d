"""ropewalk: inspect, plan, check, serve and measure open-weights language models at long context.

    import ropewalk

    inspection = ropewalk.inspect("Qwen/Qwen3-8B")
    plan = ropewalk.plan(inspection, context_len=131072, memory_bytes=48 * 1024**3)
    print(plan.rope.reason, plan.fit.fits, plan.launch.command)

Six functions, the records that they take and give, and the errors that they raise; everything is imported
when it is first asked for. In a notebook the records show as pages.
"""

from __future__ import annotations

from importlib import import_module

from ropewalk._version import __version__

TYPE_CHECKING = False  # as type checkers know it; the module typing is a third of what importing this costs
if TYPE_CHECKING:
    from typing import Any

    from ropewalk.checking.records import CheckResult
    from ropewalk.core import attend, check, inspect, measure, plan, serve
    from ropewalk.errors import (
        CheckpointError,
        CheckpointMissingError,
        EngineError,
        EngineFailedError,
        EngineMissingError,
        EngineTimeoutError,
        HubError,
        RopewalkError,
        RunActiveError,
        RunMissingError,
        RunStoreError,
        UsageError,
    )
    from ropewalk.findings import Finding
    from ropewalk.inspector.layer_kinds import LayerGroup
    from ropewalk.inspector.records import Fact, Inspection
    from ropewalk.lab.records import Attention
    from ropewalk.measuring.records import ArmResult, Comparison, Measurement, RecallCell
    from ropewalk.measuring.settings import MeasureSettings
    from ropewalk.planner.records import Fit, Memory, MemoryTerm, Plan, PlanRequest, RopeDecision
    from ropewalk.serving.preflight import PreflightError
    from ropewalk.serving.records import LaunchSpec
    from ropewalk.serving.service import ServeSettings, Service

__all__ = [
    "ArmResult",
    "Attention",
    "CheckResult",
    "CheckpointError",
    "CheckpointMissingError",
    "Comparison",
    "EngineError",
    "EngineFailedError",
    "EngineMissingError",
    "EngineTimeoutError",
    "Fact",
    "Finding",
    "Fit",
    "HubError",
    "Inspection",
    "LaunchSpec",
    "LayerGroup",
    "MeasureSettings",
    "Measurement",
    "Memory",
    "MemoryTerm",
    "Plan",
    "PlanRequest",
    "PreflightError",
    "RecallCell",
    "RopeDecision",
    "RopewalkError",
    "RunActiveError",
    "RunMissingError",
    "RunStoreError",
    "ServeSettings",
    "Service",
    "UsageError",
    "__version__",
    "attend",
    "check",
    "inspect",
    "measure",
    "plan",
    "serve",
]

_HOMES = {
    "core": "attend check inspect measure plan serve",
    "checking.records": "CheckResult",
    "errors": "CheckpointError CheckpointMissingError EngineError EngineFailedError EngineMissingError "
    "EngineTimeoutError HubError RopewalkError RunActiveError RunMissingError RunStoreError UsageError",
    "findings": "Finding",
    "inspector.layer_kinds": "LayerGroup",
    "inspector.records": "Fact Inspection",
    "lab.records": "Attention",
    "measuring.records": "ArmResult Comparison Measurement RecallCell",
    "measuring.settings": "MeasureSettings",
    "planner.records": "Fit Memory MemoryTerm Plan PlanRequest RopeDecision",
    "serving.preflight": "PreflightError",
    "serving.records": "LaunchSpec",
    "serving.service": "ServeSettings Service",
}

# What a function gives back; these records show as pages in a notebook.
_RESULTS = {
    "inspect": "Inspection",
    "plan": "Plan",
    "check": "CheckResult",
    "measure": "Measurement",
    "attend": "Attention",
}


if not TYPE_CHECKING:  # to a type checker it would mean that every name exists

    def __getattr__(name: str) -> Any:
        home = next((home for home, names in _HOMES.items() if name in names.split()), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        if name in _RESULTS:
            __getattr__(_RESULTS[name])
        elif name in _RESULTS.values():
            import_module(f"{__name__}.report.notebook").show(value)
        return value


def __dir__() -> list[str]:
    return __all__
