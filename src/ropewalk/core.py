"""The whole job as a handful of functions; every front end calls these and nothing behind them.

Data flows one way: checkpoint, inspection, plan, launch, measurement. Each function takes and gives
records; a stage imports what it needs when it is called, so that asking for one does not start the others.
The six of ``import ropewalk`` (``inspect``, ``plan``, ``check``, ``serve``, ``measure``, ``attend``) take a
request as keywords as well, and raise :class:`UsageError` for a wrong argument.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from ropewalk.engines import REFERENCE, engine_for
from ropewalk.errors import CheckpointError, EngineMissingError, UsageError
from ropewalk.validation import checked, record_of, require_known, require_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ropewalk.checking import CheckResult
    from ropewalk.checking.log_report import LogReport
    from ropewalk.checking.receipts import Receipts
    from ropewalk.doctor import Doctor
    from ropewalk.documents import ServerList, TensorList
    from ropewalk.emit import Kind
    from ropewalk.engines import CheckpointFormat, EngineName
    from ropewalk.inspector.records import Checkpoint, Inspection
    from ropewalk.inspector.survey import CheckpointList
    from ropewalk.lab.records import Attention, Kernels
    from ropewalk.measuring.arm_run import StartServer
    from ropewalk.measuring.events import Event
    from ropewalk.measuring.pace import Pace
    from ropewalk.measuring.recall.tasks import Asked
    from ropewalk.measuring.records import Measurement, RecallCell, SpeedPoint, Trial
    from ropewalk.measuring.run_pair import RunPair
    from ropewalk.measuring.settings import MeasureOptions, RunRequest
    from ropewalk.measuring.store import RunStore
    from ropewalk.planner.cache_summary import CacheSummary
    from ropewalk.planner.choose import Choice
    from ropewalk.planner.machine import Machine
    from ropewalk.planner.options import PlanOptions, ServerOptions
    from ropewalk.planner.records import Compute, Plan, PlanRequest
    from ropewalk.planner.rope.table import RopeTable
    from ropewalk.serving.engines.llama_cpp.bake import Baked
    from ropewalk.serving.host.devices import Device
    from ropewalk.serving.host.probe import Host, Read
    from ropewalk.serving.launcher import RunningServer
    from ropewalk.serving.live import Watch
    from ropewalk.serving.preflight import PreflightItem
    from ropewalk.serving.process.detached import DetachedServer
    from ropewalk.serving.process.engine_process import LogTail
    from ropewalk.serving.process.leftovers import Leftovers
    from ropewalk.serving.records import LaunchSpec
    from ropewalk.serving.service import ServeSettings, Service

Source = str | os.PathLike[str]
P = ParamSpec("P")
R = TypeVar("R")


def _public(function: Callable[P, R]) -> Callable[P, R]:
    """A call that does not fit the signature is the user's mistake like any other."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            own = error.__traceback__
            if own is None or own.tb_next is not None:  # not the call itself, but something in it
                raise
            code = function.__code__
            require_known(kwargs, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
            raise UsageError(str(error), where={"function": function.__name__}) from None

    return call


# Reading a checkpoint


def open_checkpoint(source: Source) -> Checkpoint:
    """Open a checkpoint from its headers: every tensor's name, dtype, shape and bytes.

    ``source`` is a folder, a ``.safetensors`` file, an index, a ``config.json``, a ``.gguf`` file (any
    part of a split one) or a Hub id ``org/name[@revision]``. Raises :class:`CheckpointError`.
    """
    from ropewalk.inspector.checkpoint import open_checkpoint as open_

    return open_(source)


@_public
def inspect(source: Source | Checkpoint) -> Inspection:
    """Say what a checkpoint is: facts with their sources, what each layer keeps, what is wrong.

    No weight is loaded. Raises :class:`CheckpointError` where there is nothing to say.
    """
    from ropewalk.inspector.inspection import inspect_checkpoint
    from ropewalk.inspector.records import Checkpoint

    return inspect_checkpoint(source if isinstance(source, Checkpoint) else open_checkpoint(_source(source)))


def checkpoints(source: Source) -> CheckpointList:
    """The checkpoints in and below a folder, each with its type, bits per weight and bytes.

    Raises :class:`UsageError` where ``source`` is no folder of this machine.
    """
    from ropewalk.inspector.survey import survey

    folder = Path(source)
    if not folder.is_dir():
        raise UsageError(f"{source} is no folder", where={"file": str(source)})
    return survey(folder)


def tensors(source: Source | Checkpoint, rows: Sequence[int] | None = None) -> TensorList:
    """The tensors of a checkpoint as a record: all of them, or the ``rows`` of its table in this order."""
    from ropewalk.documents import TensorList
    from ropewalk.inspector.records import Checkpoint

    opened = source if isinstance(source, Checkpoint) else open_checkpoint(source)
    table = opened.tensors
    chosen = range(len(table)) if rows is None else rows
    return TensorList(
        source=opened.source,
        format=opened.format,
        num_tensors=len(chosen),
        tensor_bytes=sum(table.nbytes[row] for row in chosen),
        tensors=tuple(table.row(row) for row in chosen),
        findings=opened.findings,
    )


def matching(checkpoint: Checkpoint, glob: str | None) -> list[int]:
    """The rows of the tensors whose whole name matches, in the table's order; all without a glob."""
    from fnmatch import fnmatchcase

    names = checkpoint.tensors.names
    return [row for row, name in enumerate(names) if glob is None or fnmatchcase(name, glob)]


def cache_summary(inspection: Inspection) -> CacheSummary | None:
    """What the model keeps, before any engine; None where a dimension is unknown."""
    from ropewalk.planner.cache_summary import cache_summary as summary

    return summary(inspection)


# Planning


@overload
def plan(
    source: Source | Inspection,
    request: PlanRequest,
    *,
    engine_path: str | None = None,
    confirm: bool = False,
    store: Path | None = None,
    node_addresses: Sequence[str] = (),
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
    host: Host | None = None,
    read: Read | None = None,
    **options: Unpack[PlanOptions],
) -> Plan: ...
@_public
def plan(
    source: Source | Inspection,
    request: PlanRequest | None = None,
    *,
    engine_path: str | None = None,
    confirm: bool = False,
    store: Path | None = None,
    node_addresses: Sequence[str] = (),
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
    names to replace without. ``read`` inspects what the request names beside the checkpoint. Raises
    :class:`CheckpointError`, :class:`UsageError`, and :class:`EngineMissingError` for an ``engine_path`` that
    is none.
    """
    from ropewalk.measuring.calibrate import find_calibration
    from ropewalk.serving.host.probe import plan_for_host
    from ropewalk.serving.records import Topology

    require_type("engine_path", engine_path, str | None)
    require_type("confirm", confirm, bool)
    inspection, request = _request(source, request, options)
    here = host or probe_host(request.engine, path=engine_path)
    planned = plan_for_host(
        inspection,
        request,
        here,
        calibration=find_calibration(inspection, request, here, store=store or default_store_path()),
        spread=Topology(addresses=tuple(node_addresses)),
        read=read or inspect,
    )
    if not confirm:
        return planned
    from ropewalk.serving.dry_run import confirm_plan

    return confirm_plan(planned, build=here.build)


def choose(
    sources: Sequence[Source | Inspection],
    *,
    context_len: int,
    engines: Sequence[EngineName] = (),
    **options: Unpack[ServerOptions],
) -> Choice:
    """Which of these checkpoints, engines, cache types and placements hold a length, best first.

    A folder or repository with several GGUFs stands for all of them; ``context_len`` 0 asks for the longest
    of each. Without ``engines`` they are the first that serves each format. The first answer has its
    command. Raises as :func:`plan` does.
    """
    from ropewalk.engines import readers_of
    from ropewalk.planner.choose import choose as choose_
    from ropewalk.planner.plan import with_cards

    inspections = [one for source in sources for one in _inspections(source)]
    if not inspections:
        raise UsageError("a choice needs at least one checkpoint", where={"field": "sources"})
    formats = {_stored_as(one) for one in inspections}
    wanted = tuple(engines) or tuple(readers_of(kind)[0].name for kind in sorted(formats))
    _, request = _request(inspections[0], None, {"context_len": context_len, "engine": wanted[0], **options})
    request, machine = with_cards(request)
    chosen = choose_(inspections, request, engines=wanted, machine=machine)
    if not chosen.positive:
        return chosen
    first = chosen.options[0]
    planned = plan(first.checkpoint, first.request)
    return replace(chosen, command=planned.launch.command if planned.launch else None)


def _stored_as(inspection: Inspection) -> CheckpointFormat:
    """The format that an engine would read; a config alone stands for its safetensors."""
    return "gguf" if inspection.checkpoint.format == "gguf" else "safetensors"


def _inspections(source: Source | Inspection) -> list[Inspection]:
    """What is there to choose from: one checkpoint, or all GGUFs of a folder or repository."""
    try:
        return [_inspection(source)]
    except CheckpointError as error:
        choices = error.where.get("choices")
        if error.code != "ambiguous_checkpoint" or not isinstance(choices, list):
            raise
        name = os.fspath(_source(source))
        folder = Path(name).is_dir()
        return [inspect(os.path.join(name, one) if folder else f"{name}:{one}") for one in choices]


def probe_host(engine: EngineName, *, path: str | None = None) -> Host:
    """The engine that would serve on this machine, at ``path`` if given, and the devices that it can use.

    Asking an engine may start a process. Raises :class:`EngineMissingError` where ``path`` is no engine.
    """
    from ropewalk.serving.host.probe import probe_host as probe

    return probe(engine, path=path)


def server_options(request: PlanRequest) -> ServerOptions:
    """What a request asks for beyond its length, engine and rope: what every arm of a measurement takes."""
    from ropewalk.planner.options import server_options as options_of

    return options_of(request)


def devices() -> tuple[Device, ...]:
    """The devices of this machine, GPUs first, with their memory."""
    from ropewalk.serving.host.devices import find_devices

    return find_devices()


def default_device(request: PlanRequest, host: Host) -> Device | None:
    """The device of this machine that ``auto`` stands for: the first GPU that the engine can use, else the
    processor where the engine serves on it; None where a GPU elsewhere is planned for."""
    from ropewalk.serving.host.probe import host_device

    return host_device(request, host)


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

    inspection = _inspection(source)
    if request is None:
        length = inspection.value("native_context") if context_len is None else context_len
        if length is None:
            raise UsageError("the checkpoint does not tell what it was trained for: give a context length")
        _, request = _request(inspection, None, {"context_len": length, "engine": engine})
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
        _inspection(source),
        Path(output),
        context_len=context_len,
        arm=arm,
        allow_unvalidated=allow_unvalidated,
        on_progress=on_progress,
    )


def emit(plan: Plan, kind: Kind, *, accelerator: str | None = None) -> str:
    """A plan's launch record as a shell script, Kubernetes manifest, Slurm script or SkyPilot task.

    A checkpoint that is none of this machine's files is taken for one of the Hub. ``accelerator`` is
    SkyPilot's name of a GPU. Nothing is checked against a cluster. Raises :class:`UsageError` for a plan
    whose verdict is negative, and for what such a file cannot start.
    """
    from ropewalk.emit import emit as emit_plan
    from ropewalk.inspector.readers.hubsource import hub_id_of

    return emit_plan(plan, kind, hub=hub_id_of(plan.checkpoint), accelerator=accelerator)


# Checking


@_public
def check(
    command: str | Sequence[str],
    *,
    checkpoint: Source | Inspection | None = None,
    engine_version: str | None = None,
    gpu: str | None = None,
    memory_bytes: int | None = None,
    device: str = "auto",
    machine: Machine | None = None,
    read: Callable[[str], Inspection | None] | None = None,
) -> CheckResult:
    """Judge a ``vllm serve`` or ``llama-server`` command line: what it comes to, what is wrong, its repair.

    ``command`` is its words, one string as typed into a shell, or a file that holds it (a script, a systemd
    unit, a compose file, llama-swap's configuration), with the name of the service behind it. Without
    ``checkpoint`` the command's own model is read, from this machine or the Hub; where it cannot be, the
    verdict is open. ``read`` reads it instead, and no file is looked for then. ``engine_version`` is the
    version whose rules apply. ``gpu`` is a card's name, ``memory_bytes`` the memory of each device,
    ``device`` its kind (``cpu``, ``gpu``), ``machine`` all of it at once; without a memory whether the server
    fits is not judged. Nothing is started. Raises
    :class:`CheckpointError` for a checkpoint that is named or here and cannot be read, and
    :class:`UsageError` for a command that starts no engine.
    """
    from ropewalk.checking import check_command, read_document
    from ropewalk.checking.target import target_machine

    require_type("engine_version", engine_version, str | None)
    require_type("gpu", gpu, str | None)
    require_type("memory_bytes", memory_bytes, int | None)
    require_type("device", device, str)
    words = _words(command)
    if read is None:
        words = read_document(words) or words
    inspection, unread = _served_model(words, read) if checkpoint is None else (_inspection(checkpoint), None)
    return check_command(
        words,
        inspection=inspection,
        engine_version=engine_version,
        machine=machine or target_machine(gpu=gpu, memory_bytes=memory_bytes, device=device),
        unread=unread,
    )


def read_log(
    path: Source,
    *,
    command: str | Sequence[str] | None = None,
    checkpoint: Source | Inspection | None = None,
) -> LogReport:
    """Lay the log of a vLLM or llama-server started elsewhere beside what its command was bound to come to.

    ``command`` is the server's command line, where the log does not tell it. Without ``checkpoint`` the
    command's own model is read where that is on this machine. Raises :class:`CheckpointError`, and
    :class:`UsageError` for a file that is no such log.
    """
    report, _ = _read_log(path, command, checkpoint)
    return report


def receipts(
    paths: Iterable[Source],
    *,
    command: str | Sequence[str] | None = None,
    checkpoint: Source | Inspection | None = None,
) -> Receipts:
    """What was planned and what was printed of each log, as numbers alone.

    Raises what :func:`read_log` raises.
    """
    from ropewalk.checking.receipts import Receipts, receipt_of

    read = (_read_log(path, command, checkpoint) for path in paths)
    return Receipts(tuple(receipt_of(report, inspection) for report, inspection in read))


def _read_log(
    path: Source, command: str | Sequence[str] | None, checkpoint: Source | Inspection | None
) -> tuple[LogReport, Inspection | None]:
    """The report of a log, and the model that was served where it is at hand."""
    from ropewalk.checking.foreign_log import open_log
    from ropewalk.checking.log_report import log_report

    log = open_log(Path(path))
    given = None if command is None else _words(command)
    words = given or log.command
    inspection = None if checkpoint is None else _inspection(checkpoint)
    if inspection is None and words:
        inspection, _ = _served_model(words)
    return log_report(log, path=str(path), command=given, inspection=inspection), inspection


# Serving


@overload
def serve(
    source: Source | Inspection,
    request: PlanRequest,
    *,
    settings: ServeSettings | None = None,
    confirm: bool = False,
    say: Callable[[str], None] | None = None,
) -> Service: ...
@overload
def serve(
    source: Source | Inspection,
    *,
    settings: ServeSettings | None = None,
    confirm: bool = False,
    say: Callable[[str], None] | None = None,
    **options: Unpack[PlanOptions],
) -> Service: ...
@_public
def serve(
    source: Source | Inspection,
    request: PlanRequest | None = None,
    *,
    settings: ServeSettings | None = None,
    confirm: bool = False,
    say: Callable[[str], None] | None = None,
    **options: Any,
) -> Service:
    """Plan, check beforehand, start, and wait until the server has answered; use it in a ``with`` block.

    ``options`` are those of :func:`plan`; ``settings`` say where it listens, how long it may take, and
    whether it is verified; ``say`` is told each step. On leaving the block the server and all of its
    processes are stopped, unless :meth:`Service.detach` left it running. Raises :class:`CheckpointError`,
    :class:`UsageError` (``plan_refused``, ``does_not_fit``), :class:`PreflightError` for what is known to
    fail before anything is started, and :class:`EngineError`.
    """
    from ropewalk.serving.service import ServeSettings

    require_type("settings", settings, ServeSettings | None)
    settings = settings or ServeSettings()
    inspection, request = _request(source, request, options)
    planned = plan(
        inspection,
        request,
        engine_path=settings.engine_path,
        confirm=confirm,
        node_addresses=settings.spread.addresses,
    )
    return start(planned, inspection, settings, say=say)


def start(
    plan: Plan,
    inspection: Inspection,
    settings: ServeSettings,
    *,
    say: Callable[[str], None] | None = None,
    on_check: Callable[[PreflightItem], None] | None = None,
    on_start: Callable[[Path], None] | None = None,
    on_log: Callable[[str], None] | None = None,
) -> Service:
    """Start a server that was planned; raises as :func:`serve` does.

    ``say`` is told each step that takes a while, ``on_check`` each check when it has been made, ``on_start``
    where the engine's log will be, ``on_log`` each line in it until the server has answered.
    """
    from ropewalk.serving.service import start_service

    return start_service(
        plan, inspection, checked(settings), say=say, on_check=on_check, on_start=on_start, on_log=on_log
    )


def launch(spec: LaunchSpec, *, log_path: Path, on_log: Callable[[str], None] | None = None) -> RunningServer:
    """Start a server from its launch record, and wait until it has answered. Raises :class:`EngineError`."""
    from ropewalk.serving.launcher import start as start_server

    return start_server(spec, log_path=log_path, on_log=on_log)


def log_tail(path: Path) -> LogTail:
    """A log that grows, read on from where it was last read."""
    from ropewalk.serving.process.engine_process import LogTail

    return LogTail(path)


def watch(server: RunningServer) -> Watch:
    """What tells what a running server is doing, each time it is asked."""
    from ropewalk.serving.live import Watch

    return Watch(server)


def dies_with_this_process() -> Callable[[], object]:
    """What a child process calls first, so that the system kills it when this one ends (on Linux)."""
    from ropewalk.serving.process.supervisor import die_with_parent

    return die_with_parent()


def servers() -> ServerList:
    """The servers that were left running, and what a start left behind that was killed."""
    from ropewalk.documents import ServerList
    from ropewalk.serving.process.leftovers import find_leftovers

    return ServerList(running_servers(), find_leftovers())


def running_servers() -> tuple[DetachedServer, ...]:
    """The servers that were left running, the oldest first."""
    from ropewalk.serving.process.detached import detached_servers

    return detached_servers()


def find_server(wanted: str | None = None) -> DetachedServer:
    """The one of this name, port or process id; without one, the only one there is.

    Raises :class:`UsageError` where that is none or more than one.
    """
    from ropewalk.serving.process.detached import find_detached

    return find_detached(wanted)


def stop_server(server: DetachedServer) -> None:
    """Stop it and all of its processes. Raises :class:`EngineTimeoutError` where it cannot be ended."""
    from ropewalk.serving.process.detached import stop_detached

    stop_detached(server)


def clear_leftovers() -> Leftovers:
    """Clear what starts left behind that were killed; returns what that was."""
    from ropewalk.serving.process.leftovers import clear_leftovers as clear
    from ropewalk.serving.process.leftovers import find_leftovers

    found = find_leftovers()
    clear(found)
    return found


def doctor() -> Doctor:
    """What this machine can serve: engines with their versions, how to get the others, devices, memory."""
    from ropewalk.doctor import examine

    return examine()


def require_engine(engine: EngineName) -> None:
    """Raise :class:`EngineMissingError` where none of this kind is found."""
    from ropewalk.serving.engines import pick_engine

    pick_engine(engine)


def installable_engines() -> tuple[str, ...]:
    """The names that :func:`install_engine` takes."""
    from ropewalk.serving.install import installable

    return installable()


def install_engine(name: str, *, say: Callable[[str], None]) -> Path:
    """Install an engine and return the interpreter that runs it.

    Raises :class:`UsageError` for an unknown name, :class:`EngineError` with pip's last words.
    """
    from ropewalk.serving.install import install_engine as install

    return install(name, say=say)


# Measuring


@overload
def measure(
    source: Source | Inspection,
    request: RunRequest,
    *,
    store: Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    start: StartServer | None = None,
) -> Measurement: ...
@overload
def measure(
    source: Source | Inspection,
    *,
    store: Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    start: StartServer | None = None,
    **options: Unpack[MeasureOptions],
) -> Measurement: ...
@_public
def measure(
    source: Source | Inspection,
    request: RunRequest | None = None,
    *,
    store: Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    start: StartServer | None = None,
    **options: Any,
) -> Measurement:
    """Serve each arm in turn and measure recall, memory and speed on identical prompts.

    ``options`` are the fields of :class:`ropewalk.measuring.settings.RunRequest` and of its settings,
    :class:`ropewalk.measuring.settings.MeasureSettings`. Where cores are busy and no ``threads`` are given,
    the engine takes as many as are idle. The run is written to the ``store`` as it goes and told to
    ``on_event``; ``start`` starts a server in place of the engine's own launcher. Raises
    :class:`CheckpointError`, :class:`UsageError`, :class:`EngineError`.
    """
    from ropewalk.measuring.store import RunStore

    run = _run_request(request, options)
    inspection = _inspection(source)
    engine = run.engine or default_engine(inspection)
    if run.settings.threads is None and (run.on is None or run.on.on == "local"):
        run = replace(run, settings=replace(run.settings, threads=_idle_threads()))
    with RunStore(store or default_store_path()) as runs:
        return _measure(inspection, run, engine, runs, on_event, start)


def open_store(path: Path | None = None) -> RunStore:
    """The file of runs, the user's own without a path; use it in a ``with`` block."""
    from ropewalk.measuring.store import RunStore

    return RunStore(path or default_store_path())


def default_store_path() -> Path:
    """The user's own file of runs."""
    from ropewalk.measuring.store import default_store_path as default

    return default()


def pair_runs(store: RunStore, run: str, other: str) -> RunPair:
    """Two stored runs side by side, on the prompts that both were asked."""
    from ropewalk.measuring.run_pair import pair_runs as pair

    return pair(store.load(run), store.load(other), trials=(store.trials(run), store.trials(other)))


def trials_csv(trials: Iterable[Trial]) -> str:
    """Trials as CSV with a header, one line each."""
    from ropewalk.measuring.store import trials_csv as csv_

    return csv_(trials)


def recalls_enough(measurement: Measurement) -> bool:
    """The verdict in one bit: finished, without an error, and at the longest length that was judged some arm
    recalls as much as the bar asks."""
    from ropewalk.measuring.compare import is_positive

    return is_positive(measurement)


def recall_cells(trials: Iterable[Trial]) -> tuple[RecallCell, ...]:
    """The cells of a grid that has these trials."""
    from ropewalk.measuring.recall.summary import cells

    return cells(trials)


def speed_points(trials: Iterable[Trial]) -> tuple[SpeedPoint, ...]:
    """The speed at each length of these trials."""
    from ropewalk.measuring.recall.summary import speed

    return speed(trials)


def asked(trial: Trial, depths: Sequence[float]) -> Asked | None:
    """What a trial asked, made again from its seed; None where the protocol has changed since."""
    from ropewalk.measuring.recall.tasks import asked as asked_

    return asked_(trial, depths)


def pace_of(compute: Compute | None, *, context_len: int) -> Pace:
    """What prompts of a plan's work take, learnt from those that are told to it."""
    from ropewalk.measuring.pace import pace_of as pace

    return pace(compute, context_len=context_len)


@_public
def attend(
    source: Source,
    *,
    prompt: str | None = None,
    tokens: Sequence[int] = (),
    layer: int = 0,
    head: int = 0,
    logits: bool = True,
    memory_bytes: int | None = None,
) -> Attention:
    """Compute one head's attention over a short prompt by hand, and hold it against eager and sdpa.

    ``source`` is a safetensors folder; a text is read by its own tokenizer, ``tokens`` are ids instead. Needs
    the extra ``lab``; see :func:`ropewalk.lab.attention.attend`. Raises :class:`EngineMissingError` without
    it, :class:`CheckpointError`, and :class:`UsageError` for a layer or head that is not there, a layout that
    is not covered, and (``does_not_fit``) a prompt whose squares would not fit.
    """
    for name, value, kind in (
        ("prompt", prompt, str | None), ("tokens", tuple(tokens), tuple[int, ...]), ("layer", layer, int),
        ("head", head, int), ("logits", logits, bool), ("memory_bytes", memory_bytes, int | None),
    ):  # fmt: skip
        require_type(name, value, kind)
    _require_torch()
    if (prompt is None) == (not tokens):
        raise UsageError("a prompt or token ids are needed, and not both", where={"field": "prompt"})
    from ropewalk.lab.attention import attend as attend_

    return attend_(
        os.fspath(_source(source)),
        prompt=prompt,
        tokens=tokens,
        layer=layer,
        head=head,
        logits=logits,
        memory_bytes=memory_bytes,
    )


def time_kernels(source: Source | Inspection, *, up_to: int, device: str | None = None) -> Kernels:
    """Time eager attention against sdpa over doubling lengths, with the heads of a checkpoint.

    No weight is read. Needs the extra ``lab``; see :func:`ropewalk.lab.timing.time_kernels`. Raises as
    :func:`attend` does.
    """
    _require_torch()
    from ropewalk.lab.timing import time_kernels as time_kernels_

    return time_kernels_(_inspection(source), up_to=up_to, device=device)


def _source(source: object) -> Source:
    require_type("source", source, str | os.PathLike)
    return source  # type: ignore[return-value]  # it was looked at


def _inspection(source: Source | Inspection) -> Inspection:
    from ropewalk.inspector.records import Inspection

    return source if isinstance(source, Inspection) else inspect(_source(source))


def _request(
    source: Source | Inspection, request: PlanRequest | None, options: Mapping[str, object]
) -> tuple[Inspection, PlanRequest]:
    """Both looked at; what is asked first, since it takes no reading."""
    from ropewalk.planner.records import PlanRequest

    if request is not None:
        _require_alone(options)
        require_type("request", request, PlanRequest)
        request = checked(request)
        return _inspection(source), request
    names_engine = options.get("engine") is not None
    asked = record_of(PlanRequest, options if names_engine else {**options, "engine": REFERENCE})
    inspection = _inspection(source)
    return inspection, asked if names_engine else replace(asked, engine=default_engine(inspection))


def _run_request(request: RunRequest | None, options: Mapping[str, object]) -> RunRequest:
    """Options by the names of both records; what is in neither is refused."""
    from ropewalk.measuring.cluster.settings import CampaignSettings
    from ropewalk.measuring.settings import MeasureSettings, RunRequest

    if request is not None:
        _require_alone(options)
        require_type("request", request, RunRequest)
        return replace(checked(request), settings=checked(request.settings))
    grid = {field.name for field in fields(MeasureSettings)}
    own = {field.name for field in fields(RunRequest)} - {"settings"}
    require_known(options, (*own, *grid))
    settings = record_of(MeasureSettings, {name: value for name, value in options.items() if name in grid})
    given = {name: value for name, value in options.items() if name in own}
    if isinstance(given.get("on"), str):
        given["on"] = CampaignSettings(str(given["on"]))
    return record_of(RunRequest, {**given, "settings": settings})


def _require_alone(options: Mapping[str, object]) -> None:
    if options:
        name = next(iter(options))
        raise UsageError(f"a request has {name} of its own: give one or the other", where={"field": name})


def _measure(
    inspection: Inspection,
    run: RunRequest,
    engine: EngineName,
    store: RunStore,
    on_event: Callable[[Event], None] | None,
    start: StartServer | None,
) -> Measurement:
    """In this process, or as a campaign: both take the same run."""
    from ropewalk.inspector.checkpoint import engine_file
    from ropewalk.serving.engines import pick_engine

    model = engine_file(inspection.checkpoint.source)
    if run.on is None:
        from ropewalk.measuring.measure import run_measurement

        build = pick_engine(engine, path=run.engine_path)
        return run_measurement(
            inspection,
            model=model,
            build=build,
            context_len=run.context_len,
            arms=run.arms,
            settings=run.settings,
            store=store,
            on_event=on_event,
            resume=run.resume,
            start=start,
        )
    from ropewalk.measuring.cluster.campaign import planned_build, run_campaign

    return run_campaign(
        inspection,
        model=model,
        build=planned_build(engine, run.settings.plan, engine_path=run.engine_path),
        context_len=run.context_len,
        arms=run.arms,
        settings=run.settings,
        campaign=run.on,
        store=store,
        engine_path=run.engine_path,
        on_event=on_event,
        resume=run.resume,
    )


def _words(command: str | Sequence[str]) -> tuple[str, ...]:
    words = (command,) if isinstance(command, str) else command
    require_type("command", tuple(words) if isinstance(words, Sequence) else words, tuple[str, ...])
    return tuple(words)


def _served_model(
    words: Sequence[str], read: Callable[[str], Inspection | None] | None = None
) -> tuple[Inspection | None, str | None]:
    """What a command serves, or why it could not be read."""
    from ropewalk.checking import model_source

    source = model_source(words)
    if source is None:
        return None, "it is named inside a container, or not at all"
    if read is not None:
        inspection = read(source)
        return inspection, None if inspection else f"{source} is not what may be read here"
    source = os.path.expandvars(os.path.expanduser(source))
    try:
        return inspect(source), None
    except CheckpointError as error:
        if os.path.lexists(source):
            raise
        return None, error.message


def _idle_threads() -> int | None:
    """As many threads as cores are idle; None, the engine's own choice, where all are."""
    from ropewalk.serving.host.devices import idle_cores, this_machine

    cores = this_machine().cores
    idle = idle_cores(cores)
    return idle if idle < cores else None


def _require_torch() -> None:
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise EngineMissingError(
            'attention is computed with torch: pip install "ropewalk[lab]"',
            code="extra_missing",
            where={"module": "torch"},
        ) from error
