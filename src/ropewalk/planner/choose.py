"""Which file, engine, cache type and placement hold a length: every candidate planned, the best first.

A candidate is one checkpoint on one engine with one cache type; where it does not fit a card whole, with
llama.cpp's placement that does. Each is priced by the planner as it stands; nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ropewalk.engines import EngineName, engine_of
from ropewalk.errors import RopewalkError, UsageError
from ropewalk.findings import Finding
from ropewalk.inspector.records import Inspection
from ropewalk.planner.case import PlanningCase
from ropewalk.planner.compute import compute_of
from ropewalk.planner.engines import rules_of
from ropewalk.planner.fit import fit_limits
from ropewalk.planner.longest import longest_context
from ropewalk.planner.machine import Machine, device_of
from ropewalk.planner.model import shape_of
from ropewalk.planner.placement import find_placement
from ropewalk.planner.records import FitGoal, PlanRequest, RopeDecision, RopeDecisionKind, Speed
from ropewalk.planner.rope.decision import decide_for
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import MemoryEstimate

# Cache types whose loss is small, and those that lose visibly, the keys most; a measured run beats this.
_LOSSLESS, _NEAR = 0, 1
_LOSS = {
    "auto": _LOSSLESS,
    "f16": _LOSSLESS,
    "bf16": _LOSSLESS,
    "f32": _LOSSLESS,
    "q8_0": _NEAR,
    "fp8": _NEAR,
}
_VISIBLE = 2
_ENOUGH_BITS = 8.5  # bits of a weight beyond which no loss is known


@dataclass(frozen=True, slots=True)
class Option:
    """One candidate; ``reason`` says why it is no answer, or what it costs.

    ``context_len`` is what is planned, ``max_context_len`` what memory allows. ``spare_bytes`` is what the
    tightest device has left at the upper end, negative for what it is short of. ``host_weights_bytes`` are
    weights that stay in host memory beside a GPU. The speeds are bounds, None without a card's figures.
    """

    checkpoint: str
    engine: EngineName
    cache_type: str
    gpu_layers: int | None
    n_cpu_moe: int | None
    rope: RopeDecisionKind
    context_len: int
    fits: bool
    works: bool
    max_context_len: int | None
    spare_bytes: int | None
    weights_bytes: int
    host_weights_bytes: int
    parameters: int | None
    bits_per_weight: float | None
    prefill_seconds: float | None
    decode_tokens_per_second: float | None
    reason: str
    request: PlanRequest


@dataclass(frozen=True, slots=True)
class Choice:
    """All candidates, the best first; ``command`` starts the first; None where none is an answer."""

    context_len: int | None
    num_sequences: int
    budget_bytes: int
    options: tuple[Option, ...]
    findings: tuple[Finding, ...] = ()
    command: str | None = None
    schema: str = "ropewalk.choice/1"

    @property
    def positive(self) -> bool:
        """Whether one of them is an answer."""
        return any(option.works for option in self.options)


def choose(
    inspections: Sequence[Inspection],
    request: PlanRequest,
    *,
    engines: Sequence[EngineName],
    machine: Machine,
) -> Choice:
    """Plan every candidate of ``request``, whose ``context_len`` 0 asks for the longest of each.

    Raises :class:`UsageError` without a budget, and where nothing is readable by the engines.
    """
    if request.memory_bytes is None:
        raise UsageError("a choice needs to know the device: --gpu NAME or --memory SIZE")
    options = [
        option
        for inspection in inspections
        for engine in engines
        if engine_of(engine).reads(inspection.checkpoint.format)
        for option in _options(inspection, replace(request, engine=engine), machine)
    ]
    if not options:
        named = ", ".join(engines)
        raise UsageError(
            f"no engine of {named} reads any of these checkpoints", where={"engines": list(engines)}
        )
    ranked = sorted(options, key=_order)
    return Choice(request.context_len or None, request.num_sequences, request.memory_bytes, tuple(ranked))


def _options(inspection: Inspection, request: PlanRequest, machine: Machine) -> Iterator[Option]:
    rules = rules_of(request.engine)
    try:
        shape = shape_of(inspection)
    except RopewalkError as error:
        yield _impossible(inspection, request, error.message)
        return
    for name in rules.FIT_TYPES:
        asked = replace(request, cache_type_k=name, cache_type_v=name)
        try:
            yield _option(inspection, shape, PlanningCase(shape, asked, machine, rules), name)
        except RopewalkError as error:
            yield _impossible(inspection, asked, error.message)


def _option(inspection: Inspection, shape: ModelShape, case: PlanningCase, name: str) -> Option:
    if not case.request.context_len:
        case = case.asking(replace(case.request, context_len=longest_context(inspection, case)))
    case, fits = _placed(case)
    request = case.request
    rope, advised = _rope(inspection, request)
    refused = rope.decision == "refuse"
    errors = [one for one in (*advised, *case.findings()) if one.severity == "error"]
    estimated = case.memory_model().estimate_memory(request.context_len, request.num_sequences)
    moved = _moved(estimated, shape)
    speed = None if moved else _speed(case)
    return Option(
        checkpoint=inspection.checkpoint.source,
        engine=request.engine,
        cache_type=name,
        gpu_layers=request.gpu_layers,
        n_cpu_moe=request.n_cpu_moe,
        rope=rope.decision,
        context_len=request.context_len,
        fits=fits,
        works=fits and not refused and not errors,
        max_context_len=fit_limits("", case).max_context_len,
        spare_bytes=-estimated.shortfall_bytes,
        weights_bytes=shape.weights.total,
        host_weights_bytes=moved,
        parameters=inspection.checkpoint.parameters,
        bits_per_weight=_bits(inspection, shape),
        prefill_seconds=speed.prefill_seconds if speed else None,
        decode_tokens_per_second=speed.decode_tokens_per_second if speed else None,
        reason=rope.reason if refused else _reason(errors, fits=fits, moved=moved, name=name),
        request=request,
    )


def _rope(inspection: Inspection, request: PlanRequest) -> tuple[RopeDecision, tuple[Finding, ...]]:
    advice = decide_for(inspection, request)
    return advice.decision, tuple(advice.findings)


def _moved(estimated: MemoryEstimate, shape: ModelShape) -> int:
    """Weights that stay on the host beside other devices, but for the embedding, which always does."""
    if len(estimated.devices) == 1:
        return 0
    hosts = (device for device in estimated.devices if device.usable_bytes is None)
    kept = sum(term.bytes for device in hosts for term in device.terms if term.name == "weights")
    return max(0, kept - shape.weights.embedding)


def _speed(case: PlanningCase) -> Speed | None:
    key, value = case.types()
    work = compute_of(
        case.shape, context_len=case.request.context_len, key=key, value=value, machine=case.machine
    )
    return work.speed if work else None


def _placed(case: PlanningCase) -> tuple[PlanningCase, bool]:
    """The case whole on the card, else as llama.cpp places it so that it fits; and whether it does."""
    request = case.request
    fits = case.memory_model().shortfall_bytes(request.context_len, request.num_sequences) <= 0
    gpu = device_of(request, case.machine, default="cpu") == "gpu"
    if fits or not gpu or not engine_of(request.engine).places_blocks:
        return case, fits
    goal: FitGoal = "cpu_moe" if any(case.shape.weights.experts) else "gpu_layers"
    found, _ = find_placement(case.asking(replace(request, fit=goal)))
    placed = found.request
    return found, found.memory_model().shortfall_bytes(placed.context_len, placed.num_sequences) <= 0


def _reason(errors: Sequence[Finding], *, fits: bool, moved: int, name: str) -> str:
    if not fits:
        return "does not fit"
    if errors:
        return errors[0].message
    costs = []
    if moved:
        costs.append("weights in host memory: slower")
    if _LOSS.get(name, _VISIBLE) == _VISIBLE:
        costs.append("this cache type loses visibly")
    elif _LOSS.get(name) == _NEAR:
        costs.append("this cache type loses little")
    return "; ".join(costs) or "whole on the device, nothing lost in the cache"


def _bits(inspection: Inspection, shape: ModelShape) -> float | None:
    parameters = inspection.checkpoint.parameters
    return 8 * shape.weights.total / parameters if parameters else None


def _impossible(inspection: Inspection, request: PlanRequest, reason: str) -> Option:
    return Option(
        checkpoint=inspection.checkpoint.source,
        engine=request.engine,
        cache_type=request.cache_type_k,
        gpu_layers=None,
        n_cpu_moe=None,
        rope="none",
        context_len=request.context_len,
        fits=False,
        works=False,
        max_context_len=None,
        spare_bytes=None,
        weights_bytes=inspection.checkpoint.tensor_bytes,
        host_weights_bytes=0,
        parameters=inspection.checkpoint.parameters,
        bits_per_weight=None,
        prefill_seconds=None,
        decode_tokens_per_second=None,
        reason=reason,
        request=request,
    )


def _order(option: Option) -> tuple[float, ...]:
    """What works, reaches furthest, is whole on the device, loses nothing that shows and scales no rope;
    then the most parameters, the most bits, the better cache, the faster; else the nearest."""
    loss = _LOSS.get(option.cache_type, _VISIBLE)
    spare = option.spare_bytes if option.spare_bytes is not None else -(2**62)
    return (
        not option.works,
        -option.context_len if option.works else max(0, -spare),
        bool(option.host_weights_bytes),
        loss == _VISIBLE,
        option.rope == "scale",
        -(option.parameters or 0),
        -round(min(option.bits_per_weight or 0.0, _ENOUGH_BITS), 1),
        loss,
        -(option.decode_tokens_per_second or 0.0),
    )
