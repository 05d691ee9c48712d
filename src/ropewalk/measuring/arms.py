"""Arms: the server configurations that are measured against each other, each with its plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from ropewalk.errors import UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.measuring.recall.prompt import longest_prompt
from ropewalk.planner.options import ServerOptions
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan, PlanRequest, RopeDecision
from ropewalk.planner.rope.emit import smallest_factor
from ropewalk.serving.host.probe import Host, companions, machine_of

SWEEP = "yarn:sweep"
SWEEP_SHARES = (1.0, 1.25, 1.5, 2.0)  # of the smallest factor that reaches the target


@dataclass(frozen=True, slots=True)
class Arm:
    """A configuration by name, in words, and planned.

    The name is a rope (``shipped``, ``auto``, ``yarn:F``, ``unscaled``) with a cache type behind a plus where
    the arm has one of its own: ``shipped+q8_0``.
    """

    name: str
    label: str
    plan: Plan

    @property
    def rope(self) -> str:
        """The name without its cache type."""
        return self.plan.request.arm

    @property
    def cache_types(self) -> tuple[str, str]:
        """The cache types of keys and values of this arm."""
        return self.plan.request.cache_type_k, self.plan.request.cache_type_v


def plan_arm(
    inspection: Inspection, name: str, *, context_len: int, here: Host, options: ServerOptions
) -> Arm:
    """Plan an arm: ``shipped`` at most at the trained context, every other at the target.

    What no publisher describes is planned too, since measuring it is the point. Raises
    :class:`UsageError` for a name that is no arm, and for a cache type that the engine has not.
    """
    rope, _, cache_type = name.partition("+")
    native = inspection.value("native_context")
    length = min(context_len, native) if rope == "shipped" and native else context_len
    assert here.build is not None  # noqa: S101 - measuring begins with an engine
    fields: ServerOptions = {"allow_unvalidated": True, "engine_version": here.build.version, **options}
    if cache_type:
        fields["cache_type_k"] = fields["cache_type_v"] = cache_type
    request = PlanRequest(context_len=length, engine=here.build.engine, arm=rope, **fields)
    plan = make_plan(inspection, request, machine=machine_of(request, here), **companions(request))
    return Arm(name, _label(rope, plan.rope) + (f", {cache_type} cache" if cache_type else ""), plan)


def expanded(names: Iterable[str], inspection: Inspection, *, context_len: int) -> list[str]:
    """``yarn:sweep`` becomes arms of the smallest factor that reaches the target and of larger ones.

    Smaller factors end before the target. Raises :class:`UsageError` where there is nothing to stretch.
    """
    found: list[str] = []
    for name in names:
        rope, plus, cache_type = name.partition("+")
        if rope != SWEEP:
            found.append(name)
            continue
        native = inspection.value("native_context")
        if native is None or context_len <= native:
            told = "unknown" if native is None else f"{native:,} tokens"
            raise UsageError(
                f"{SWEEP} is for targets beyond the trained context, which is {told} here; the target is "
                f"{context_len:,}",
                where={"arm": name, "native_context": native, "context_len": context_len},
            )
        least = smallest_factor(context_len, native)
        factors = (ceil(least * share * 1000) / 1000 for share in SWEEP_SHARES)
        found += [f"yarn:{factor:g}{plus}{cache_type}" for factor in factors]
    return list(dict.fromkeys(found))


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

    Without scaling, a prompt within the context of the arm as shipped, of the same cache type, is computed
    just as there: only what lies beyond is asked, or the longest where nothing does.
    """
    alike = (other for other in arms if other.cache_types == arm.cache_types)
    shipped = next((other for other in alike if other.rope == "shipped"), None)
    if arm.rope != "unscaled" or shipped is None:
        return tuple(lengths)
    beyond = tuple(length for length in lengths if length >= shipped.plan.context_len)
    return beyond or tuple(lengths[-1:])


def own_walk_len(arm: Arm, arms: Iterable[Arm], lengths: Sequence[int]) -> int:
    """How far an arm is led through a text whose losses are read, in tokens.

    As far as the longest prompt, or to the end of its context. The arm as shipped goes no further than the
    shortest prompt where an unscaled one of the same cache type computes the rest just as it would: that the
    two agree there shows that the text, the engine and the reading are the same.
    """
    alike = (other for other in arms if other.cache_types == arm.cache_types)
    if arm.rope == "shipped" and any(other.rope == "unscaled" for other in alike):
        return min(lengths)
    return min(max(lengths), longest_prompt(arm.plan.context_len, answer_tokens=1))


def _serves_alike(plan: Plan, other: Plan) -> bool:
    return (
        plan.context_len == other.context_len
        and plan.rope == other.rope
        and plan.override_context_len == other.override_context_len
        and plan.request.cache_type_k == other.request.cache_type_k
        and plan.request.cache_type_v == other.request.cache_type_v
    )


def _label(name: str, decided: RopeDecision) -> str:
    if name in ("shipped", "unscaled"):
        return {"shipped": "as shipped", "unscaled": "unscaled"}[name]
    if decided.decision == "scale" and decided.factor is not None:
        return f"YaRN {decided.factor:g}"
    return "as shipped" if decided.decision in ("none", "builtin") else name
