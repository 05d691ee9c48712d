"""Facts and a request become a plan: rope decision, memory term by term, what fits, the work."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ropewalk.engines import engine_of
from ropewalk.errors import UsageError
from ropewalk.findings import Finding, by_severity
from ropewalk.inspector.records import Inspection
from ropewalk.planner.advice import advise
from ropewalk.planner.calibration import Calibration
from ropewalk.planner.cards import find_cards
from ropewalk.planner.compute import compute_of, work_of
from ropewalk.planner.engines import rules_of
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.fit import fit_limits
from ropewalk.planner.longest import LONGEST, longest_context
from ropewalk.planner.machine import UNKNOWN, Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.nodes import find_nodes
from ropewalk.planner.parallel import world_size
from ropewalk.planner.placement import GOALS, find_placement
from ropewalk.planner.pricing import attained_of, host_weights
from ropewalk.planner.records import (
    Advice,
    BudgetFrom,
    Candidate,
    DeviceShare,
    Fit,
    Memory,
    Parallel,
    PlacementStep,
    Plan,
    PlanRequest,
    PromptWork,
    Traffic,
)
from ropewalk.planner.rope.decision import decide_for
from ropewalk.planner.rope.versions import version_findings
from ropewalk.planner.terms import memory_of
from ropewalk.planner.verdict import errors_of, largest_context
from ropewalk.planner.ways_out import ways_out
from ropewalk.planner.weights import weights_findings
from ropewalk.units import MIB, format_bytes

_MIN_VALUES = {
    "context_len": LONGEST, "num_sequences": 1, "tensor_parallel": 1, "pipeline_parallel": 1,
    "max_batched_tokens": 1, "batch": 1, "ubatch": 1, "gpu_layers": 0, "cache_ram_bytes": 0,
    "context_checkpoints": 0, "data_parallel": 1, "decode_context_parallel": 1, "nodes": 1,
    "gpus_per_node": 1, "block_size": 1, "mtp": 0, "max_num_seqs": 1, "kv_cache_memory_bytes": 1,
    "n_cpu_moe": 0, "main_gpu": 0, "cpu_offload_bytes": 0, "kv_offloading_bytes": 0, "lora": 0,
    "max_lora_rank": 1,
}  # fmt: skip
# By kind, some with a number: as the engines and torch name them.
_DEVICE = re.compile(r"auto|cpu|(?:gpu|cuda|rocm|hip|metal|mps|vulkan|sycl|xpu)(?::?\d+)?", re.IGNORECASE)
_MAX_VALUE = 2**63 - 1  # what an engine could be given
_MAX_DEVICES = 1024  # each gets a share of its own


def make_plan(
    inspection: Inspection,
    request: PlanRequest,
    *,
    machine: Machine = UNKNOWN,
    draft: Inspection | None = None,
    projector: Inspection | None = None,
    calibration: Calibration | None = None,
) -> Plan:
    """Plan one request.

    ``machine`` is what is known of the devices, ``draft`` a model that proposes tokens, ``projector`` a
    tower in a file of its own, ``calibration`` the speed measured of just this service. The command is
    not part of it: ``launch`` stays None. Raises :class:`UsageError` for a request that no engine could be
    given, :class:`CheckpointError` where a dimension is unknown.
    """
    request = _with_budget(request)
    asked = request
    request, machine = with_cards(request, machine)
    require_sane(request)
    shape = shape_of(inspection, draft=draft, projector=projector, mtp=request.mtp)
    case, candidates, placements = _settled(_with_length(inspection, PlanningCase(shape, request, machine)))
    request = case.request
    key, value = case.types()
    estimated = case.memory_model().estimate_memory(request.context_len, request.num_sequences)
    memory = memory_of(estimated)
    fit = _fit(case, memory)
    largest, limited_by = largest_context(inspection, request, fit)
    fit = replace(
        fit,
        largest_context_len=largest,
        limited_by=limited_by,
        budget_from=_budget_from(asked, request),
        device_name=machine.name,
    )
    broken = errors_of(inspection, draft, projector)
    advice = decide_for(inspection, request)
    parallel = _parallel(memory, advise(case, fit), case.traffic(), candidates)
    findings = [*broken, *(one for one in advice.findings if one not in broken), *case.findings()]
    findings += weights_findings(shape)
    findings += [*version_findings(request.engine_version, request.engine), *verdict(memory, fit)]
    findings += _in_use(memory, fit, machine) if machine.is_here else []
    return Plan(
        request=request,
        checkpoint=inspection.checkpoint.source,
        context_len=request.context_len,
        native_context=advice.native_context,
        supported_context=advice.supported_context,
        rope=advice.decision,
        memory=memory,
        fit=fit,
        compute=compute_of(
            shape,
            context_len=request.context_len,
            key=key,
            value=value,
            machine=machine,
            calibration=calibration,
            attained=attained_of(case, host_weights(estimated, shape)),
        ),
        findings=by_severity(findings),
        override_context_len=advice.override_context_len,
        parallel=parallel,
        placements=placements,
        broken=broken,
        ways_out=ways_out(case, fit, memory),
    )


def prompt_work(
    inspection: Inspection, request: PlanRequest, lengths: Iterable[int], *, machine: Machine = UNKNOWN
) -> tuple[PromptWork, ...]:
    """The work of prompts of these lengths where ``request`` is served; raises as :func:`make_plan` does."""
    shape = shape_of(inspection, mtp=request.mtp)
    key, value = PlanningCase(shape, request, machine).types()
    return tuple(work_of(shape, length=length, key=key, value=value) for length in lengths)


def with_cards(request: PlanRequest, machine: Machine = UNKNOWN) -> tuple[PlanRequest, Machine]:
    """The request with a budget, and the machine that it is planned for: the cards that it names, over which
    several are cut unless a cut is asked for, else ``machine``, whose memory is the budget where it is here.

    Raises :class:`UsageError` for a name that is not known.
    """
    if request.gpu is None:
        places_on_gpu = request.fit in GOALS and machine.kind != "gpu"
        own = machine.memory_bytes if machine.is_here and not places_on_gpu else None
        return _budgeted(request, own), machine
    cards = find_cards(request.gpu)
    machine = cards.machine()
    request = _budgeted(request, machine.memory_bytes)
    if cards.count > 1:
        uncut = world_size(request) == 1 and not engine_of(request.engine).places_blocks
        shards = cards.count if uncut else request.tensor_parallel
        request = replace(request, gpus_per_node=request.gpus_per_node or cards.count, tensor_parallel=shards)
    return request, machine


def _budgeted(request: PlanRequest, memory_bytes: int | None) -> PlanRequest:
    """The request with this budget where it has none of its own."""
    return request if request.memory_bytes is not None else replace(request, memory_bytes=memory_bytes)


def _with_length(inspection: Inspection, case: PlanningCase) -> PlanningCase:
    """The case with the longest length, where that is asked for."""
    if case.request.context_len != LONGEST:
        return case
    return case.asking(replace(case.request, context_len=longest_context(inspection, case)))


def require_sane(request: PlanRequest) -> None:
    """Raise :class:`UsageError` for numbers that no engine could be given."""
    for size in (request.memory_bytes, *request.node_memory_bytes):
        if size is not None and size < MIB:
            raise UsageError(
                f"{size} bytes of memory hold no model; write a size such as 24GiB",
                where={"field": "memory_bytes", "value": size, "least": MIB},
            )
    if not _DEVICE.fullmatch(request.device):
        raise UsageError(
            f"{request.device!r} is no device: auto, cpu, gpu or cuda:0",
            where={"field": "device", "value": request.device},
        )
    for name, least in _MIN_VALUES.items():
        value = getattr(request, name)
        if value is not None and not least <= value <= _MAX_VALUE:
            limit = f"at least {least}" if value < least else f"at most {_MAX_VALUE}"
            raise UsageError(f"{name} must be {limit}, not {value}", where={"field": name, "value": value})
    if len(request.link_speed) > 2 or min(request.link_speed, default=1) < 1:
        raise UsageError(
            "a link speed is one inside a node, and one between nodes, of at least 1 byte per second",
            where={"field": "link_speed", "value": list(request.link_speed)},
        )
    devices = max(world_size(request), request.nodes, request.gpus_per_node or 1)
    if devices > _MAX_DEVICES:
        raise UsageError(
            f"{devices:,} devices are more than the {_MAX_DEVICES:,} that can be planned for",
            where={"field": "pipeline_parallel", "value": devices},
        )
    most = rules_of(request.engine).MAX_SEQUENCES
    if most is not None and request.num_sequences > most:
        raise UsageError(
            f"{request.engine} serves at most {most} at a time, not {request.num_sequences}; others wait",
            where={"field": "num_sequences", "value": request.num_sequences, "most": most},
        )


def _with_budget(request: PlanRequest) -> PlanRequest:
    """The request with the smallest node's memory as the budget, where nodes differ."""
    if not request.node_memory_bytes:
        return request
    if min(request.node_memory_bytes) < 1:
        raise UsageError(
            "the memory of a node must be at least 1 byte",
            where={"field": "node_memory_bytes", "value": list(request.node_memory_bytes)},
        )
    return replace(request, memory_bytes=min(request.node_memory_bytes))


def _budget_from(asked: PlanRequest, request: PlanRequest) -> BudgetFrom | None:
    """Whose memory the budget is: of the request as it was asked, or of what stood in for it."""
    if request.memory_bytes is None:
        return None
    if asked.memory_bytes is not None:
        return "request"
    return "card" if asked.gpu else "this_machine"


def _settled(case: PlanningCase) -> tuple[PlanningCase, tuple[Candidate, ...], tuple[PlacementStep, ...]]:
    """The request as given, or the one that a search found, and what it tried."""
    if case.request.fit == "asked":
        return case, (), ()
    if case.request.fit in GOALS:
        found, placements = find_placement(case)
        return found, (), placements
    request, candidates = find_nodes(case)
    return case.asking(request), candidates, ()


def _fit(case: PlanningCase, memory: Memory) -> Fit:
    """The verdict, and how far the budget reaches in each cache type; all None without a budget."""
    usable = case.usable_bytes()
    if usable is None:
        return Fit(None, None, None, None, ())
    asked = fit_limits("asked", case)
    types = case.types()
    rows = []
    for name in case.rules.FIT_TYPES:
        other = case.asking(replace(case.request, cache_type_k=name, cache_type_v=name))
        same = other.types() == types
        rows.append(replace(asked, cache_type=name) if same else fit_limits(name, other))
    return Fit(
        budget_bytes=case.request.memory_bytes,
        fits=all(share.fits is not False for share in memory.per_device),
        max_context_len=asked.max_context_len,
        max_sequences=asked.max_sequences,
        table=tuple(rows),
        usable_bytes=usable,
    )


def _parallel(
    memory: Memory,
    advised: tuple[Advice, ...],
    sent: tuple[Traffic, ...],
    candidates: tuple[Candidate, ...],
) -> Parallel | None:
    """What several ranks bring and cost; None for one device that was not searched for."""
    places = [(share.device, share.place) for share in memory.per_device if share.place]
    if not places and not candidates:
        return None
    tightest = next((device for device, place in places if place.tightest), None)
    return Parallel(tightest, advised, sent, candidates)


def verdict(memory: Memory, fit: Fit) -> list[Finding]:
    """``does_not_fit``, with the device that lacks most."""
    lacking = [share for share in memory.per_device if share.fits is False]
    if not lacking:
        return []
    needs = {share.device: (share.high_bytes or 0, _usable(share, fit)) for share in lacking}
    device, (need, have) = max(needs.items(), key=lambda item: item[1][0] - item[1][1])
    return [
        Finding(
            "does_not_fit",
            "error",
            f"up to {format_bytes(need)} are needed on {device}, {format_bytes(have)} may be used",
            {"device": device, "needed_bytes": need, "usable_bytes": have},
        )
    ]


def _in_use(memory: Memory, fit: Fit, machine: Machine) -> list[Finding]:
    """``memory_in_use``, where it fits this machine and not what is free of it now."""
    needed = max((share.high_bytes or 0 for share in memory.per_device if share.fits), default=0)
    if not fit.fits or machine.free_bytes is None or needed <= machine.free_bytes:
        return []
    free = format_bytes(machine.free_bytes)
    return [
        Finding(
            "memory_in_use",
            "warning",
            f"up to {format_bytes(needed)} are needed and {free} are free now: end what holds the rest first",
            {"needed_bytes": needed, "free_bytes": machine.free_bytes},
        )
    ]


def _usable(share: DeviceShare, fit: Fit) -> int:
    """What the engine may use of this device."""
    own = share.place.budget_bytes if share.place else None
    return (fit.usable_bytes or 0) if own is None else own
