"""What is asked of the planner and what it answers."""

from __future__ import annotations

from ropewalk.planner.records.choices import (
    Advice,
    AdviceKind,
    Candidate,
    Parallel,
    PlacementStep,
    PlacementStepKind,
    Traffic,
    WayOut,
    WayOutKind,
)
from ropewalk.planner.records.compute import Compute, Decode, Mask, Prefill, PromptWork, Speed
from ropewalk.planner.records.launch import Launch, NodeLaunch, OptionNote
from ropewalk.planner.records.memory import Basis, DeviceShare, KvCache, Memory, MemoryTerm, RankPlace
from ropewalk.planner.records.plan import (
    BudgetFrom,
    Fit,
    FitRow,
    LimitedBy,
    Plan,
    RopeDecision,
    RopeDecisionKind,
)
from ropewalk.planner.records.request import FitGoal, FlashAttention, MambaCacheMode, PlanRequest, SplitMode

__all__ = [
    "Advice",
    "AdviceKind",
    "Basis",
    "BudgetFrom",
    "Candidate",
    "Compute",
    "Decode",
    "DeviceShare",
    "Fit",
    "FitGoal",
    "FitRow",
    "FlashAttention",
    "KvCache",
    "Launch",
    "LimitedBy",
    "MambaCacheMode",
    "Mask",
    "Memory",
    "MemoryTerm",
    "NodeLaunch",
    "OptionNote",
    "Parallel",
    "PlacementStep",
    "PlacementStepKind",
    "Plan",
    "PlanRequest",
    "Prefill",
    "PromptWork",
    "RankPlace",
    "RopeDecision",
    "RopeDecisionKind",
    "Speed",
    "SplitMode",
    "Traffic",
    "WayOut",
    "WayOutKind",
]
