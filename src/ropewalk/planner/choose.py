"""Which file, engine, cache type, placement and rope hold a length: every candidate planned, the best first.

A candidate is one checkpoint on one engine with one cache type; where it does not fit a card whole, with
llama.cpp's placement that does. Each is priced by the planner as it stands; nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ropewalk.engines import EngineName, engine_of
from ropewalk.errors import RopewalkError, UsageError
from ropewalk.findings import Finding
from ropewalk.inspector.records import Inspection
from ropewalk.planner.cache_costs import LOSSES, CacheCost, cost_of, describe_loss
from ropewalk.planner.calibration import Calibration
from ropewalk.planner.choice import Choice, Option
from ropewalk.planner.compute import speed_of
from ropewalk.planner.engines import rules_of
from ropewalk.planner.engines.rules import MemoryModel, PlanningCase
from ropewalk.planner.fit import longest_fit
from ropewalk.planner.longest import LONGEST, longest_context
from ropewalk.planner.machine import Machine, device_of
from ropewalk.planner.model import shape_of
from ropewalk.planner.placement import placed
from ropewalk.planner.pricing import Price, attained_of, price
from ropewalk.planner.records import Fit, FitGoal, LimitedBy, PlanRequest, Speed
from ropewalk.planner.rope.decision import RopeAdvice, decide_for
from ropewalk.planner.steps import steps_down
from ropewalk.planner.verdict import errors_of, largest_context
from ropewalk.units import format_bytes, format_tokens

_ENOUGH_BITS = 8.5  # bits of a weight beyond which no loss is known
_FAR = 2**62


@dataclass(frozen=True, slots=True)
class Target:
    """An engine on a device: ``request`` is what every candidate is asked with, its ``context_len`` 0 for the
    longest of each."""

    request: PlanRequest
    machine: Machine


@dataclass(frozen=True, slots=True)
class Known:
    """What was measured before, by checkpoint; None where nothing was."""

    cache_cost: Callable[[Inspection, EngineName, str], CacheCost | None] = lambda model, engine, name: None
    speed: Callable[[Inspection, PlanRequest], Calibration | None] = lambda model, request: None


NOTHING_KNOWN = Known()


def choose(
    inspections: Sequence[Inspection],
    targets: Sequence[Target],
    *,
    device: str,
    known: Known = NOTHING_KNOWN,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Choice:
    """Plan every candidate of the ``targets``, which ask for the same.

    ``on_progress`` hears how many checkpoints were planned, and of how many. Raises :class:`UsageError`
    without a budget, and where nothing is readable by the engines.
    """
    asked = targets[0].request
    if any(target.request.memory_bytes is None for target in targets):
        raise UsageError("a choice needs to know the device: --gpu NAME or --memory SIZE")
    tried: list[_Tried] = []
    for number, inspection in enumerate(inspections):
        on_progress(number, len(inspections))
        tried += (
            one
            for target in targets
            if engine_of(target.request.engine).reads(inspection.checkpoint.format)
            for one in _all(inspection, target)
        )
    on_progress(len(inspections), len(inspections))
    if not tried:
        engines = [target.request.engine for target in targets]
        raise UsageError(
            f"no engine of {', '.join(engines)} reads any of these checkpoints", where={"engines": engines}
        )
    made = [(one.option(known), one) for one in tried]
    made.sort(key=lambda pair: order(pair[0]))
    options, (first, best) = tuple(option for option, _ in made), made[0]
    choice = Choice(
        context_len=asked.context_len or None,
        num_sequences=asked.num_sequences,
        device=device,
        budget_bytes=max(target.request.memory_bytes or 0 for target in targets),
        options=options,
        steps=tuple(steps_down(first, best.case, options, _goal_of(best.case))) if best.case else (),
    )
    return replace(choice, findings=() if choice.positive else (_closest(choice),))


def order(option: Option) -> tuple[float, ...]:
    """What works, within what is published, reaches furthest, recalled most, is whole on the device, loses
    nothing that shows and scales no rope; then the most parameters, the most bits, the better cache, the
    faster. Of what does not work, that which comes nearest to the length."""
    run, speed = option.run, option.speed
    loss = LOSSES.index(option.cache_cost.loss)
    short = 0 if option.spare_bytes is None else max(0, -option.spare_bytes)
    return (
        not option.works or (run is not None and not run.finished),
        option.is_beyond,
        -option.context_len if option.works else -(option.largest_context_len or 0),
        0 if option.works else (_FAR if option.spare_bytes is None else short),
        -(run.recall or 0.0) if run else 0.0,
        bool(option.host_weights_bytes),
        loss == LOSSES.index("visible"),
        option.rope == "scale",
        -(option.parameters or 0),
        -round(min(option.bits_per_weight or 0.0, _ENOUGH_BITS), 1),
        loss,
        -((run and run.decode_tokens_per_second) or (speed and speed.decode_tokens_per_second) or 0.0),
    )


def _all(inspection: Inspection, target: Target) -> Iterator[_Tried]:
    request, rules = target.request, rules_of(target.request.engine)
    model = _Model(inspection)
    given = (request.cache_type_k, request.cache_type_v) != ("auto", "auto")
    try:
        shape = shape_of(inspection, mtp=request.mtp)
    except RopewalkError as error:
        yield _Tried(model, request, error=error.message)
        return
    for name in (request.cache_type_k,) if given else rules.FIT_TYPES:
        asked = request if given else replace(request, cache_type_k=name, cache_type_v=name)
        try:
            case = PlanningCase(shape, asked, target.machine)
            yield from (_Tried(model, one.request, one, memory) for one, memory in _variants(model, case))
        except RopewalkError as error:
            yield _Tried(model, asked, error=error.message)


@dataclass(frozen=True, slots=True)
class _Model:
    """A checkpoint with its rope decisions, which no cache type changes."""

    inspection: Inspection
    decided: dict[tuple[object, ...], RopeAdvice] = field(default_factory=dict)

    def advice(self, request: PlanRequest) -> RopeAdvice:
        key = (request.engine, request.engine_version, request.context_len)
        if key not in self.decided:
            self.decided[key] = decide_for(self.inspection, request)
        return self.decided[key]


Variant = tuple[PlanningCase, MemoryModel]


def _variants(model: _Model, case: PlanningCase) -> Iterator[Variant]:
    """The length that is asked for, whole on the device where it fits, else as llama.cpp places it.

    Of the longest: whole, with parts on the host where that reaches further, and without scaling where the
    longest needs it.
    """
    request, goal = case.request, _goal(case)
    if request.context_len != LONGEST:
        yield _at(case, goal)
        return
    whole = _longest(model, case, "asked")
    further = _longest(model, case, goal) if goal and not _holds(case, (whole or 0) + 1) else None
    if whole is None and further is None:
        longest_context(model.inspection, case)  # raises with the reason
    for length, fit in ((whole, None), (further, goal)):
        if length is not None and (fit is None or length > (whole or 0)):
            yield _at(case.asking(replace(request, context_len=length)), fit)
    native = model.inspection.value("native_context")
    if whole is not None and isinstance(native, int) and native < whole:
        asked = replace(request, context_len=whole)
        if model.advice(asked).decision.decision == "scale":
            yield _at(case.asking(replace(request, context_len=native)), None)


def _longest(model: _Model, case: PlanningCase, fit: FitGoal) -> int | None:
    try:
        return longest_context(model.inspection, case.asking(replace(case.request, fit=fit)))
    except UsageError:
        return None


def _holds(case: PlanningCase, context_len: int) -> bool:
    return case.memory_model().shortfall_bytes(context_len, case.request.num_sequences) <= 0


def _at(case: PlanningCase, goal: FitGoal | None) -> Variant:
    request, memory = case.request, case.memory_model()
    if goal is None or memory.shortfall_bytes(request.context_len, request.num_sequences) <= 0:
        return case, memory
    found = placed(case.asking(replace(request, fit=goal)))
    return found, found.memory_model()


def _goal(case: PlanningCase) -> FitGoal | None:
    """How llama.cpp would place what does not fit a card whole; None where it cannot, or was told."""
    request = case.request
    told = request.fit != "asked" or request.gpu_layers is not None or request.n_cpu_moe is not None
    return None if told else _goal_of(case)


def _goal_of(case: PlanningCase) -> FitGoal | None:
    request = case.request
    on_gpu = device_of(request, case.machine, default="cpu") == "gpu"
    if not on_gpu or not engine_of(request.engine).places_blocks:
        return None
    return "cpu_moe" if any(case.shape.weights.experts) and _places_experts(case) else "gpu_layers"


def _places_experts(case: PlanningCase) -> bool:
    try:
        case.asking(replace(case.request, n_cpu_moe=1)).types()
    except UsageError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Tried:
    """A candidate before it is priced; ``error`` says why there is no case."""

    model: _Model
    request: PlanRequest
    case: PlanningCase | None = None
    memory: MemoryModel | None = None
    error: str = ""

    def option(self, known: Known) -> Option:
        """The candidate with its price."""
        if self.case is None or self.memory is None:
            return self._made(reason=self.error)
        try:
            return self._priced(self.case, self.memory, known)
        except RopewalkError as error:
            return self._made(reason=error.message)

    def _priced(self, case: PlanningCase, memory: MemoryModel, known: Known) -> Option:
        request, inspection = case.request, self.model.inspection
        found = price(case, memory)
        advice = self.model.advice(request)
        reach = longest_fit(request, memory)
        limits = Fit(request.memory_bytes, reach is not None, reach, None, ())
        largest, limited_by = largest_context(inspection, request, limits)
        refused = advice.decision.decision == "refuse"
        told = (*advice.findings, *case.findings(), *errors_of(inspection))
        errors = [] if request.allow_broken else [one for one in told if one.severity == "error"]
        fits = found is not None and found.shortfall_bytes <= 0
        cost = known.cache_cost(inspection, request.engine, request.cache_type_k)
        cost = cost or cost_of(request.cache_type_k)
        moved = found.host_weights_bytes if found else 0
        option = self._made(
            reason="",
            found=found,
            advice=advice,
            works=fits and not refused and not errors,
            reach=reach,
            largest=largest,
            limited_by=limited_by,
            weights_bytes=case.shape.weights.total,
            cost=cost,
            speed=None if moved else _speed(case, known.speed(inspection, request), moved),
        )
        reason = advice.decision.reason if refused else _reason(option, errors)
        return replace(option, reason=reason)

    def _made(
        self,
        *,
        reason: str,
        found: Price | None = None,
        advice: RopeAdvice | None = None,
        works: bool = False,
        reach: int | None = None,
        largest: int | None = None,
        limited_by: LimitedBy = None,
        weights_bytes: int | None = None,
        cost: CacheCost | None = None,
        speed: Speed | None = None,
    ) -> Option:
        summary, request = self.model.inspection.checkpoint, self.request
        weights = summary.tensor_bytes if weights_bytes is None else weights_bytes
        return Option(
            checkpoint=summary.source,
            engine=request.engine,
            cache_type=request.cache_type_k,
            gpu_layers=request.gpu_layers,
            n_cpu_moe=request.n_cpu_moe,
            rope=advice.decision.decision if advice else "none",
            context_len=request.context_len,
            fits=found is not None and found.shortfall_bytes <= 0,
            works=works,
            max_context_len=reach,
            largest_context_len=largest,
            limited_by=limited_by,
            needed_bytes=found.needed_bytes if found else None,
            usable_bytes=found.usable_bytes if found else None,
            spare_bytes=-found.shortfall_bytes if found else None,
            weights_bytes=weights,
            host_weights_bytes=found.host_weights_bytes if found else 0,
            parameters=summary.parameters,
            bits_per_weight=8 * weights / summary.parameters if summary.parameters else None,
            cache_cost=cost or cost_of(request.cache_type_k),
            speed=speed,
            reason=reason,
            request=request,
        )


def _speed(case: PlanningCase, calibration: Calibration | None, moved: int) -> Speed | None:
    key, value = case.types()
    return speed_of(
        case.shape,
        context_len=case.request.context_len,
        key=key,
        value=value,
        machine=case.machine,
        calibration=calibration,
        attained=attained_of(case, moved),
    )


def _reason(option: Option, errors: Sequence[Finding]) -> str:
    """Why it is no answer, else what it costs."""
    if not option.fits:
        return f"does not fit: {format_bytes(-(option.spare_bytes or 0))} short"
    if errors:
        return errors[0].message
    costs = [
        "weights in host memory: slower" if option.host_weights_bytes else "",
        "beyond what is published of it" if option.is_beyond else "",
        "the rope is scaled, for short prompts too" if option.rope == "scale" else "",
        describe_loss(option.cache_cost),
    ]
    return "; ".join(filter(None, costs)) or "whole on the device, nothing lost in the cache"


def _closest(choice: Choice) -> Finding:
    """What comes nearest where nothing holds the length, and what is in its way."""
    first = choice.options[0]
    asked = "not one token" if choice.context_len is None else f"{format_tokens(choice.context_len)} tokens"
    reach = first.largest_context_len
    ends = {"memory": "memory", "config": "its config", "publisher": "what its publisher describes"}
    limit = f" (ended by {ends[first.limited_by]})" if first.limited_by else ""
    near = "reaches none" if reach is None else f"reaches {format_tokens(reach)} tokens{limit}"
    return Finding(
        "no_candidate",
        "error",
        f"no candidate holds {asked} on {choice.device}; the closest, {first.checkpoint} on {first.engine} "
        f"with a {first.cache_type} cache, {near}: {first.reason}",
        {
            "context_len": choice.context_len,
            "checkpoint": first.checkpoint,
            "engine": first.engine,
            "cache_type": first.cache_type,
            "largest_context_len": reach,
            "limited_by": first.limited_by,
        },
    )
