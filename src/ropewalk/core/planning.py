"""From an inspection to a plan, and what is made of either: a rope table, a baked file, a manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from ropewalk.core.arguments import Source, public, require_alone
from ropewalk.core.machine import probe_host
from ropewalk.core.reading import inspect, inspection_of
from ropewalk.core.runs import default_store_path
from ropewalk.engines import REFERENCE, engine_for
from ropewalk.errors import UsageError
from ropewalk.limits import MAX_PLAN_BYTES
from ropewalk.validation import checked, record_of, require_type, tuple_of

if TYPE_CHECKING:
    from ropewalk.emit import EmitKind
    from ropewalk.engines import EngineName
    from ropewalk.inspector.records import Inspection
    from ropewalk.planner.options import PlanOptions, ServerOptions
    from ropewalk.planner.records import Plan, PlanRequest
    from ropewalk.planner.rope.table import RopeTable
    from ropewalk.serving.engines.llama_cpp.bake import Baked
    from ropewalk.serving.host.probe import Host, Read


@overload
def plan(
    source: Source | Inspection,
    request: PlanRequest,
    *,
    engine_path: str | None = None,
    confirm: bool = False,
    store: Path | None = None,
    node_addresses: Sequence[str] = (),
    beside: Sequence[Plan] = (),
    host: Host | None = None,
    read: Read | None = None,
) -> Plan: ...
@overload
def plan(
    source: Source | Inspection,
    *,
    engine_path: str | None = None,
    confirm: bool = False,
    store: Path | None = None,
    node_addresses: Sequence[str] = (),
    beside: Sequence[Plan] = (),
    host: Host | None = None,
    read: Read | None = None,
    **options: Unpack[PlanOptions],
) -> Plan: ...
@public
def plan(
    source: Source | Inspection,
    request: PlanRequest | None = None,
    *,
    engine_path: str | None = None,
    confirm: bool = False,
    store: Path | None = None,
    node_addresses: Sequence[str] = (),
    beside: Sequence[Plan] = (),
    host: Host | None = None,
    read: Read | None = None,
    **options: Any,
) -> Plan:
    """Plan one context length: rope decision, memory term by term, what fits, the exact command.

    ``options`` are the fields of :class:`ropewalk.planner.records.PlanRequest`, which is taken whole as well.
    Without ``engine`` a GGUF is planned for llama-server, everything else for vLLM; the version and the
    device are those found here (``host``, where that was looked at before), see
    :func:`ropewalk.serving.host.probe.plan_for_host`. ``confirm`` has the engine itself work out its memory
    without reading weights, see :mod:`ropewalk.serving.dry_run`. Where a run in ``store`` measured just this
    service on this machine, its speed is predicted. The commands of several machines have ``node_addresses``,
    names to replace without. What the plans ``beside`` it hold of the same devices is not there for this
    one. ``read`` inspects what the request names beside the checkpoint. Raises :class:`CheckpointError`,
    :class:`UsageError`, and :class:`EngineMissingError` for an ``engine_path`` that
    is none.
    """
    from ropewalk.findings import by_severity
    from ropewalk.measuring.calibrate import find_calibration
    from ropewalk.planner.beside import beside as shared
    from ropewalk.planner.records import Plan
    from ropewalk.serving.host.probe import Host, machine_of, plan_for_host
    from ropewalk.serving.records import Topology

    require_type("engine_path", engine_path, str | None)
    require_type("confirm", confirm, bool)
    require_type("store", store, Path | None)
    require_type("node_addresses", tuple_of(node_addresses), tuple[str, ...])
    require_type("beside", tuple_of(beside), tuple[Plan, ...])
    require_type("host", host, Host | None)
    inspection, request = plan_request(source, request, options)
    here = host or probe_host(request.engine, path=engine_path)
    request, found = shared(inspection, request, beside, machine_of(request, here))
    planned = plan_for_host(
        inspection,
        request,
        here,
        calibration=find_calibration(inspection, request, here, store=store or default_store_path()),
        spread=Topology(addresses=tuple(node_addresses)),
        read=read or inspect,
    )
    planned = replace(planned, findings=by_severity((*planned.findings, *found))) if found else planned
    if not confirm:
        return planned
    from ropewalk.serving.dry_run import confirm_plan

    return confirm_plan(planned, build=here.build)


def read_plan(path: Path) -> Plan:
    """A plan that ``ropewalk plan --json`` wrote. Raises :class:`UsageError` for a file that holds none."""
    from pydantic import ValidationError

    from ropewalk import jsonio
    from ropewalk.planner.records import Plan

    try:
        with path.open("rb") as stream:
            return jsonio.loads(Plan, stream.read(MAX_PLAN_BYTES))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", where={"file": str(path)}) from error
    except (ValidationError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} is no plan: write one with ropewalk plan --json", where={"file": str(path)}
        ) from error


def server_options(request: PlanRequest) -> ServerOptions:
    """What a request asks for beyond its length, engine and rope: what every arm of a measurement takes."""
    from ropewalk.planner.options import server_options as options_of

    return options_of(request)


def default_engine(inspection: Inspection) -> EngineName:
    """The engine that serves this format: llama-server for GGUF, vLLM for everything else."""
    return engine_for(inspection.checkpoint.format)


def cache_types(engine: EngineName) -> tuple[str, ...]:
    """The types of KV cache worth planning for."""
    from ropewalk.planner.engines import rules_of

    return tuple(dict.fromkeys(("auto", *rules_of(engine).FIT_TYPES)))


def padded_cells(tokens: int, padding: int) -> int:
    """Live cells of a causal mask whose first ``padding`` tokens are left padding."""
    from ropewalk.planner.compute import padded_cells as cells_

    return cells_(tokens, padding)


def rope(
    source: Source | Inspection,
    request: PlanRequest | None = None,
    *,
    context_len: int | None = None,
    engine: EngineName | None = None,
) -> RopeTable:
    """The rotation rate and wavelength of each pair, and what scaling for a context length does to it.

    A ``request`` has its own length, engine, version and arm. Without ``context_len`` it is the length that
    was trained. Raises :class:`CheckpointError`, and :class:`UsageError` where that length is unknown or the
    model has no rotary positions.
    """
    from ropewalk.planner.rope.decision import decide_for
    from ropewalk.planner.rope.table import rope_table

    inspection = inspection_of(source)
    if request is None:
        length = inspection.value("native_context") if context_len is None else context_len
        if length is None:
            raise UsageError("the checkpoint does not tell what it was trained for: give a context length")
        _, request = plan_request(inspection, None, {"context_len": length, "engine": engine})
    advice = decide_for(inspection, request)
    return rope_table(inspection, advice, context_len=request.context_len, engine=request.engine)


def bake(
    source: Source | Inspection,
    output: Source,
    *,
    context_len: int,
    arm: str = "auto",
    allow_unvalidated: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Baked:
    """A copy of a GGUF file with the rope scaling for ``context_len`` in its header, read back and compared.

    For engines that take no rope flags. ``on_progress`` hears the bytes written and all of them. Raises
    :class:`UsageError` where there is nothing to bake or ``output`` exists, :class:`EngineError` where it
    cannot be written.
    """
    from ropewalk.serving.engines.llama_cpp.bake import bake as bake_

    return bake_(
        inspection_of(source),
        Path(output),
        context_len=context_len,
        arm=arm,
        allow_unvalidated=allow_unvalidated,
        on_progress=on_progress,
    )


def emit(plan: Plan, kind: EmitKind, *, accelerator: str | None = None) -> str:
    """A plan's launch record as a script, manifest, task, Compose file or unit: what ``kind`` says.

    A checkpoint that is none of this machine's files is taken for one of the Hub. ``accelerator`` is
    SkyPilot's name of a GPU. Nothing is checked against a cluster. Raises :class:`UsageError` for a plan
    whose verdict is negative, and for what such a file cannot start.
    """
    from ropewalk.emit import emit as emit_plan
    from ropewalk.inspector.readers.hubsource import hub_id_of

    return emit_plan(plan, kind, hub=hub_id_of(plan.checkpoint), accelerator=accelerator)


def plan_request(
    source: Source | Inspection, request: PlanRequest | None, options: Mapping[str, object]
) -> tuple[Inspection, PlanRequest]:
    """Both looked at; what is asked first, since it takes no reading."""
    from ropewalk.planner.records import PlanRequest

    if request is not None:
        require_alone(options)
        require_type("request", request, PlanRequest)
        request = checked(request)
        return inspection_of(source), request
    names_engine = options.get("engine") is not None
    asked = record_of(PlanRequest, options if names_engine else {**options, "engine": REFERENCE})
    inspection = inspection_of(source)
    return inspection, asked if names_engine else replace(asked, engine=default_engine(inspection))
