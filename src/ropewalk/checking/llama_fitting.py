"""What ``--fit`` makes of a llama-server command on a machine that is known: the context that it leaves, the
layers and experts that it keeps in host memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ropewalk.checking.diagnostics import NO_REPAIR, Diagnostic, Repair, diagnostic, set_flag
from ropewalk.checking.llama_memory import planned_request
from ropewalk.checking.llama_settings import LlamaServed, LlamaSettings
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines import llama_builds as builds
from ropewalk.planner.engines import llama_server
from ropewalk.planner.engines.llama_fit import FitBounds, FittedContext, fitted_context, left_free
from ropewalk.planner.engines.llama_places import num_blocks
from ropewalk.planner.engines.rules import MemoryModel, PlanningCase
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.placement import placement_options
from ropewalk.planner.records import PlanRequest
from ropewalk.planner.shape import ModelShape


@dataclass(frozen=True, slots=True)
class Fitted:
    """``context`` is what is left of the trained length, None where the length stays. ``placed`` is the
    request with layers or experts on the host, None where all stays where it was; ``num_layers`` are those
    that ``-ngl`` counts, ``holds`` says whether the engine found room by it."""

    context: FittedContext | None
    placed: PlanRequest | None
    num_layers: int
    holds: bool


def fitted(
    settings: LlamaSettings,
    served: LlamaServed,
    inspection: Inspection,
    machine: Machine,
    *,
    on_gpu: bool | None,
    version: str | None,
) -> Fitted | None:
    """What the fit comes to; None where it may change nothing or the memory is not known."""
    effect = settings.fit_effect(version)
    acts = effect.places_layers or (effect.shrinks_context and not settings.per_slot)
    if machine.memory_bytes is None or not acts:
        return None
    request = replace(
        planned_request(settings, served.slots, machine, on_gpu=bool(on_gpu), version=version),
        memory_bytes=machine.memory_bytes,
    )
    shape = shape_of(inspection, mtp=request.mtp)
    bounds = _bounds(settings, served, shape, version)
    model = llama_server.memory_model(PlanningCase(shape, request, machine))
    context, context_len = None, bounds.longest
    if effect.shrinks_context and not settings.per_slot:
        found = fitted_context(model, bounds)
        context_len = found.tokens
        context = found if context_len < bounds.longest else None
    holds = left_free(model, bounds, context_len) >= 0
    placed = None
    if not holds and on_gpu and effect.places_layers:
        placed, holds = _placed(shape, request, machine, bounds, context_len)
    return Fitted(context, placed, num_blocks(shape) + 1, holds)


def _bounds(
    settings: LlamaSettings, served: LlamaServed, shape: ModelShape, version: str | None
) -> FitBounds:
    streams = served.slots.streams if builds.FIT_PER_SLOT.surely(version) else 1
    return FitBounds(
        longest=served.slots.n_ctx,
        num_sequences=served.slots.num_slots,
        streams=streams,
        floor=settings.fit_floor * streams,
        margins=settings.fit_margins,
        layers=num_blocks(shape),
        experts=bool(shape.num_experts),
        version=version,
    )


def _placed(
    shape: ModelShape, request: PlanRequest, machine: Machine, bounds: FitBounds, context_len: int
) -> tuple[PlanRequest, bool]:
    """The placement with the most on the devices that leaves their margins free, and whether there is one.

    The engine keeps the experts of the last blocks on the host, where ``--n-cpu-moe`` names the first.
    """

    def holds(model: MemoryModel) -> bool:
        return left_free(model, bounds, context_len) >= 0

    return _first_placement(shape, request, machine, holds)


def _first_placement(
    shape: ModelShape, request: PlanRequest, machine: Machine, holds: Callable[[MemoryModel], bool]
) -> tuple[PlanRequest, bool]:
    """The first of all placements, from the most on the devices on, that ``holds``; else the last."""
    options = placement_options(shape, replace(request, fit="cpu_moe" if shape.num_experts else "gpu_layers"))
    found = bisect_left(
        options,
        True,
        key=lambda option: holds(llama_server.memory_model(PlanningCase(shape, option, machine))),
    )
    return options[min(found, len(options) - 1)], found < len(options)


def placement_repair(
    settings: LlamaSettings,
    served: LlamaServed,
    inspection: Inspection,
    machine: Machine,
    *,
    version: str | None,
) -> Repair | None:
    """The placement by which a command fits the devices at its upper end; None where none is found."""
    if machine.memory_bytes is None:
        return None
    request = replace(
        planned_request(settings, served.slots, machine, on_gpu=True, version=version),
        memory_bytes=machine.memory_bytes, gpu_layers=None, n_cpu_moe=None, cpu_moe=False,
    )  # fmt: skip
    shape = shape_of(inspection, mtp=request.mtp)
    placed, holds = _first_placement(
        shape,
        request,
        machine,
        lambda model: model.shortfall_bytes(request.context_len, request.num_sequences) <= 0,
    )
    if not holds:
        return None
    repair = NO_REPAIR
    if placed.n_cpu_moe:
        repair |= set_flag("--n-cpu-moe", placed.n_cpu_moe)
    if placed.gpu_layers is not None:
        repair |= set_flag("--gpu-layers", placed.gpu_layers, short="-ngl")
    return repair if repair.edits else None


def placement_diagnostics(found: Fitted) -> Iterator[Diagnostic]:
    """What the fit leaves on the host."""
    placed = found.placed
    if placed is None:
        return
    experts, layers = placed.n_cpu_moe or 0, placed.gpu_layers
    parts = [f"the experts of about {experts} blocks"] if experts else []
    if layers is not None:
        parts.append(f"about {found.num_layers - layers} of {found.num_layers} layers")
    flags = [f"--n-cpu-moe {experts}"] if experts else []
    flags += [f"-ngl {layers}"] if layers is not None else []
    yield diagnostic(
        "layers_placed",
        "info" if found.holds else "warning",
        f"--fit keeps {' and '.join(parts)} in host memory, to leave its margin of the device free"
        if found.holds
        else "--fit finds no placement that leaves its margin free",
        fix=f"{' '.join(flags)} for the same at every start"
        if found.holds
        else "a shorter -c, or a smaller model",
        flag="--fit",
        n_cpu_moe=placed.n_cpu_moe,
        gpu_layers=layers,
    )
