"""Facts and a request become a plan: rope decision, memory term by term, what fits, the work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ropewalk.errors import UsageError
from ropewalk.findings import Finding, by_severity
from ropewalk.inspector.records import Inspection
from ropewalk.planner.calibration import Calibration
from ropewalk.planner.compute import compute_of, work_of
from ropewalk.planner.engines import ENGINES
from ropewalk.planner.engines.rules import EngineRules
from ropewalk.planner.fit import largest
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import Fit, FitRow, Memory, Plan, PlanRequest, PromptWork
from ropewalk.planner.rope.decision import decide_rope
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import memory_of
from ropewalk.units import format_bytes

_UNKNOWN = Machine()
_LEAST = {
    "context_len": 1, "num_sequences": 1, "memory_bytes": 1, "tensor_parallel": 1, "pipeline_parallel": 1,
    "max_batched_tokens": 1, "batch": 1, "ubatch": 1, "gpu_layers": 0, "cache_ram_bytes": 0,
    "context_checkpoints": 0,
}  # fmt: skip
_MOST = 2**63 - 1  # what an engine could be given
_MOST_DEVICES = 1024  # each gets a share of its own


def make_plan(
    inspection: Inspection,
    request: PlanRequest,
    *,
    machine: Machine = _UNKNOWN,
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
    _check(request)
    rules = ENGINES[request.engine]
    shape = shape_of(inspection, draft=draft, projector=projector, mtp=request.mtp)
    key, value = rules.types_of(shape, request, machine)
    usable = rules.usable_bytes(request, machine)
    priced = rules.pricer(shape, request, machine).price(request.context_len, request.num_sequences)
    memory = memory_of(priced, usable)
    fit = _fit(shape, request, machine, rules, memory, usable)
    advice = decide_rope(
        inspection,
        context_len=request.context_len,
        engine=request.engine,
        engine_version=request.engine_version,
        arm=request.arm,
        allow_unvalidated=request.allow_unvalidated,
    )
    findings = [*advice.findings, *rules.findings(shape, request, machine), *verdict(memory, fit)]
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
        ),
        findings=by_severity(findings),
        override_context_len=advice.override_context_len,
    )


def prompt_work(
    inspection: Inspection, request: PlanRequest, lengths: Iterable[int], *, machine: Machine = _UNKNOWN
) -> tuple[PromptWork, ...]:
    """The work of prompts of these lengths where ``request`` is served; raises as :func:`make_plan` does."""
    shape = shape_of(inspection, mtp=request.mtp)
    key, value = ENGINES[request.engine].types_of(shape, request, machine)
    return tuple(work_of(shape, length=length, key=key, value=value) for length in lengths)


def _check(request: PlanRequest) -> None:
    for name, least in _LEAST.items():
        value = getattr(request, name)
        if value is not None and not least <= value <= _MOST:
            limit = f"at least {least}" if value < least else f"at most {_MOST}"
            raise UsageError(f"{name} must be {limit}, not {value}", where={"field": name, "value": value})
    devices = request.tensor_parallel * request.pipeline_parallel
    if devices > _MOST_DEVICES:
        raise UsageError(
            f"{devices:,} devices are more than the {_MOST_DEVICES:,} that can be planned for",
            where={"field": "pipeline_parallel", "value": devices},
        )
    if request.engine not in ENGINES:
        raise UsageError(
            f"there is no engine {request.engine!r}; plans are made for {', '.join(ENGINES)}",
            where={"field": "engine", "value": request.engine},
        )


def _fit(
    shape: ModelShape,
    request: PlanRequest,
    machine: Machine,
    rules: EngineRules,
    memory: Memory,
    usable: int | None,
) -> Fit:
    """The verdict, and how far the budget reaches in each cache type; all None without a budget."""
    if usable is None:
        return Fit(None, None, None, None, ())
    asked = _reach("asked", shape, request, machine, rules, usable)
    types = rules.types_of(shape, request, machine)
    rows = []
    for name in rules.FIT_TYPES:
        other = replace(request, cache_type_k=name, cache_type_v=name)
        same = rules.types_of(shape, other, machine) == types
        rows.append(
            replace(asked, cache_type=name) if same else _reach(name, shape, other, machine, rules, usable)
        )
    return Fit(
        budget_bytes=request.memory_bytes,
        fits=all(share.fits is not False for share in memory.per_device),
        max_context_len=asked.max_context_len,
        max_sequences=asked.max_sequences,
        table=tuple(rows),
        usable_bytes=usable,
    )


def _reach(
    name: str, shape: ModelShape, request: PlanRequest, machine: Machine, rules: EngineRules, usable: int
) -> FitRow:
    pricer = rules.pricer(shape, request, machine)
    context_len, num_sequences = request.context_len, request.num_sequences
    return FitRow(
        cache_type=name,
        max_context_len=largest(
            lambda count: pricer.price(count, num_sequences).tightest_bytes,
            usable,
            guess=context_len,
            step=pricer.step,
        ),
        max_sequences=largest(
            lambda count: pricer.price(context_len, count).tightest_bytes, usable, guess=num_sequences
        ),
    )


def verdict(memory: Memory, fit: Fit) -> list[Finding]:
    """``does_not_fit``, with the device that lacks most."""
    if fit.fits is not False:
        return []
    tightest = max(
        (share for share in memory.per_device if share.fits is False), key=lambda share: share.high_bytes or 0
    )
    need, have = tightest.high_bytes or 0, fit.usable_bytes or 0
    return [
        Finding(
            "does_not_fit",
            "error",
            f"up to {format_bytes(need)} are needed on {tightest.device}, {format_bytes(have)} may be used",
            {"device": tightest.device, "needed_bytes": need, "usable_bytes": have},
        )
    ]
