"""Arms: the server configurations that are measured against each other, each with its plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ropewalk.inspector.records import Inspection
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan, PlanRequest, RopeDecision
from ropewalk.serving.here import Here, machine_of


@dataclass(frozen=True, slots=True)
class Arm:
    """A configuration by name (``shipped``, ``auto``, ``yarn:F``, ``unscaled``), in words, and planned."""

    name: str
    label: str
    plan: Plan


def plan_arm(
    inspection: Inspection, name: str, *, context_len: int, here: Here, options: Mapping[str, Any]
) -> Arm:
    """Plan an arm: ``shipped`` at most at the trained context, every other at the target.

    What no publisher describes is planned too, since measuring it is the point. Raises
    :class:`UsageError` for a name that is no arm.
    """
    native = inspection.value("native_context")
    length = min(context_len, native) if name == "shipped" and native else context_len
    assert here.build is not None  # noqa: S101 - measuring begins with an engine
    fields = {"allow_unvalidated": True, "engine_version": here.build.version, **options}
    request = PlanRequest(context_len=length, engine=here.build.engine, arm=name, **fields)
    plan = make_plan(inspection, request, machine=machine_of(request, here))
    return Arm(name, _label(name, plan.rope), plan)


def distinct(arms: Iterable[Arm]) -> tuple[list[Arm], list[tuple[Arm, Arm]]]:
    """The arms that differ, and those that serve the same as an earlier one, each with that one."""
    kept: list[Arm] = []
    doubles: list[tuple[Arm, Arm]] = []
    for arm in arms:
        same = next((other for other in kept if _serves_alike(arm.plan, other.plan)), None)
        if same is None:
            kept.append(arm)
        else:
            doubles.append((arm, same))
    return kept, doubles


def own_lengths(arm: Arm, arms: Iterable[Arm], lengths: Sequence[int]) -> tuple[int, ...]:
    """The prompt lengths at which this arm can tell something that no other one tells.

    Without scaling, a prompt within the context of the arm as shipped is computed just as there: only what
    lies beyond is asked, or the longest where nothing does.
    """
    shipped = next((other for other in arms if other.name == "shipped"), None)
    if arm.name != "unscaled" or shipped is None:
        return tuple(lengths)
    beyond = tuple(length for length in lengths if length >= shipped.plan.context_len)
    return beyond or tuple(lengths[-1:])


def _serves_alike(plan: Plan, other: Plan) -> bool:
    return (
        plan.context_len == other.context_len
        and plan.rope == other.rope
        and plan.override_context_len == other.override_context_len
    )


def _label(name: str, rope: RopeDecision) -> str:
    if name in ("shipped", "unscaled"):
        return {"shipped": "as shipped", "unscaled": "unscaled"}[name]
    if rope.decision == "scale" and rope.factor is not None:
        return f"YaRN {rope.factor:g}"
    return "as shipped" if rope.decision in ("none", "builtin") else name
