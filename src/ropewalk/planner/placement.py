"""The placement with the most on the devices that holds a request, and what one step more or less would do.

A placement is how many layers leave the host (``gpu_layers``) and of how many first blocks the experts stay
there (``n_cpu_moe``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ropewalk.engines import engine_of
from ropewalk.errors import UsageError
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.fit import fit_limits
from ropewalk.planner.records import FitGoal, PlacementStep, PlacementStepKind, PlanRequest
from ropewalk.planner.shape import ModelShape

GOALS = frozenset({"gpu_layers", "cpu_moe"})


def find_placement(case: PlanningCase) -> tuple[PlanningCase, tuple[PlacementStep, ...]]:
    """The case with the best placement, and the steps around it.

    Where none holds the target it is the one that lacks least. Raises :class:`UsageError` without a budget,
    for an engine that places no layers, and where there are no experts to keep on the host.
    """
    _check(case.shape, case.request)
    tried = _Tried(case, placement_options(case.shape, case.request))
    found, chosen = _best(tried)
    return found, tuple(tried.steps(chosen))


def placed(case: PlanningCase) -> PlanningCase:
    """The case as it is, or with the best placement where one is asked for. Raises as
    :func:`find_placement` does."""
    if case.request.fit not in GOALS:
        return case
    _check(case.shape, case.request)
    return _best(_Tried(case, placement_options(case.shape, case.request)))[0]


def _best(tried: _Tried) -> tuple[PlanningCase, int]:
    """The first placement that fits, else the one that lacks least, and its number."""
    chosen = tried.first_that_fits()
    if chosen is None:
        chosen = min(range(len(tried.options)), key=tried.lacks)
    return tried.of(chosen), chosen


def placements(case: PlanningCase) -> tuple[PlanningCase, ...]:
    """The placements with the most and the least on the devices. Raises as :func:`find_placement` does."""
    _check(case.shape, case.request)
    options = placement_options(case.shape, case.request)
    return case.asking(options[0]), case.asking(options[-1])


def one_less(case: PlanningCase, goal: FitGoal) -> PlanRequest | None:
    """The placement with one block less on the devices than the request's; None where there is none."""
    request = replace(case.request, fit=goal)
    _check(case.shape, request)
    free = replace(request, gpu_layers=None, n_cpu_moe=None)
    places = [(option, _place(case.shape, option)) for option in placement_options(case.shape, free)]
    here = _place(case.shape, case.request)
    return next((option for (_, place), (option, _) in pairwise(places) if place == here), None)


def _place(shape: ModelShape, request: PlanRequest) -> tuple[int, int]:
    return (_blocks(shape) + 1 if request.gpu_layers is None else request.gpu_layers, request.n_cpu_moe or 0)


def _blocks(shape: ModelShape) -> int:
    return shape.num_layers + (shape.mtp_layers if shape.weights.mtp else 0)


def _check(shape: ModelShape, request: PlanRequest) -> None:
    flag = "--gpu-layers auto" if request.fit == "gpu_layers" else "--n-cpu-moe auto"
    where = {"flag": flag, "engine": request.engine, "memory_bytes": request.memory_bytes}
    if not engine_of(request.engine).places_blocks:
        raise UsageError(f"{request.engine} does not support {flag}", where=where)
    if request.memory_bytes is None:
        raise UsageError(f"{flag} needs to know the device: --gpu NAME or --memory SIZE", where=where)
    if request.device == "cpu":
        raise UsageError(f"{flag} places layers on a GPU, and --device cpu has none", where=where)
    if request.fit == "cpu_moe" and not any(shape.weights.experts):
        raise UsageError(
            f"{flag}: this model has no experts to keep on the host; --gpu-layers auto", where=where
        )


def placement_options(shape: ModelShape, request: PlanRequest) -> Sequence[PlanRequest]:
    """All placements for the request's goal, from the most on the devices to the least; each step moves one
    block."""
    blocks = _blocks(shape)
    asked = replace(request, fit="asked", device="cuda" if request.device == "auto" else request.device)
    layers = range(blocks + 1, 0, -1)
    if request.fit == "gpu_layers":
        return [replace(asked, gpu_layers=count) for count in layers]
    with_experts = [block + 1 for block, size in enumerate(shape.weights.experts) if size]
    whole = replace(asked, gpu_layers=request.gpu_layers)
    kept = [replace(whole, n_cpu_moe=count) for count in (0, *with_experts)]
    if request.gpu_layers is not None:
        return kept
    return [*kept, *(replace(kept[-1], gpu_layers=count) for count in layers[1:])]


@dataclass(frozen=True, slots=True)
class _Tried:
    """Placements in order, worked out as they are asked for."""

    case: PlanningCase
    options: Sequence[PlanRequest]

    def of(self, number: int) -> PlanningCase:
        """The case with one placement."""
        return self.case.asking(self.options[number])

    def lacks(self, number: int) -> int:
        """What its tightest device is short of."""
        option = self.options[number]
        return self.of(number).memory_model().shortfall_bytes(option.context_len, option.num_sequences)

    def first_that_fits(self) -> int | None:
        """By halves, since each step takes from the devices; then from there on one by one."""
        low, high = 0, len(self.options)
        while low < high:
            middle = (low + high) // 2
            if self.lacks(middle) <= 0:
                high = middle
            else:
                low = middle + 1
        return next((number for number in range(low, len(self.options)) if self.lacks(number) <= 0), None)

    def steps(self, chosen: int) -> list[PlacementStep]:
        """The chosen one between its neighbours, and the one that reaches furthest."""
        last = len(self.options) - 1
        numbers: list[tuple[PlacementStepKind, int]] = [("chosen", chosen)]
        if chosen > 0:
            numbers.insert(0, ("one_more", chosen - 1))
        if chosen < last:
            numbers.append(("one_less", chosen + 1))
        if chosen + 1 < last:
            numbers.append(("least", last))
        return [self._step(kind, number) for kind, number in numbers]

    def _step(self, kind: PlacementStepKind, number: int) -> PlacementStep:
        option = self.options[number]
        row = fit_limits("", self.of(number))
        estimated = self.of(number).memory_model().estimate_memory(option.context_len, option.num_sequences)
        on_host = [device for device in estimated.devices if device.usable_bytes is None]
        weights = [term.bytes for device in on_host for term in device.terms if term.name == "weights"]
        return PlacementStep(
            kind=kind,
            gpu_layers=option.gpu_layers,
            n_cpu_moe=option.n_cpu_moe,
            host_weights_bytes=sum(weights),
            shortfall_bytes=self.lacks(number),
            max_context_len=row.max_context_len,
        )
