"""The whole job as a handful of functions; every front end is thin over these.

Data flows one way: checkpoint, inspection, plan, launch, measurement. A stage imports what it needs
when it is called, so that asking for one does not start the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.engines import engine_for
from ropewalk.errors import CheckpointError, EngineMissingError, UsageError

if TYPE_CHECKING:
    from ropewalk.checking import CheckResult
    from ropewalk.checking.log_report import LogReport
    from ropewalk.doctor import Doctor
    from ropewalk.emit import Kind
    from ropewalk.engines import EngineName
    from ropewalk.inspector.records import Checkpoint, Inspection
    from ropewalk.lab.records import Attention, Kernels
    from ropewalk.measuring.cluster.settings import CampaignSettings
    from ropewalk.measuring.records import Measurement
    from ropewalk.planner.machine import Machine
    from ropewalk.planner.records import Plan
    from ropewalk.planner.rope.table import RopeTable
    from ropewalk.serving.service import ServeSettings, Service

Source = str | os.PathLike[str]


def open_checkpoint(source: Source) -> Checkpoint:
    """Open a checkpoint from its headers: every tensor's name, dtype, shape and bytes.

    ``source`` is a folder, a ``.safetensors`` file, an index, a ``config.json``, a ``.gguf`` file (any
    part of a split one) or a Hub id ``org/name[@revision]``. Raises :class:`CheckpointError`.
    """
    from ropewalk.inspector.checkpoint import open_checkpoint as open_

    return open_(source)


def inspect(source: Source) -> Inspection:
    """Say what a checkpoint is: facts with their sources, what each layer keeps, what is wrong.

    No weight is loaded. Raises :class:`CheckpointError` where there is nothing to say.
    """
    from ropewalk.inspector.inspection import inspect_checkpoint

    return inspect_checkpoint(open_checkpoint(source))


def plan(
    source: Source | Inspection,
    *,
    context_len: int,
    engine: EngineName | None = None,
    engine_path: str | None = None,
    confirm: bool = False,
    store: Path | None = None,
    node_addresses: Sequence[str] = (),
    **options: Any,
) -> Plan:
    """Plan one context length: rope decision, memory term by term, what fits, the exact command.

    ``options`` are the fields of :class:`ropewalk.planner.records.PlanRequest`. Without ``engine`` a GGUF is
    planned for llama-server, everything else for vLLM; the version and the device are those found here, see
    :func:`ropewalk.serving.host.probe.plan_for_host`. ``confirm`` has the engine itself work out its memory
    without reading weights, see :mod:`ropewalk.serving.dry_run`. Where a run in ``store`` measured just this
    service on this machine, its speed is predicted. The commands of several machines have ``node_addresses``,
    names to replace without. Raises :class:`CheckpointError`, :class:`UsageError`, and
    :class:`EngineMissingError` for an ``engine_path`` that is none.
    """
    from ropewalk.measuring.calibrate import find_calibration
    from ropewalk.measuring.store import default_store_path
    from ropewalk.planner.records import PlanRequest
    from ropewalk.serving.host.probe import plan_for_host, probe_host
    from ropewalk.serving.topology import Topology

    inspection = _inspection(source)
    request = PlanRequest(context_len=context_len, engine=engine or default_engine(inspection), **options)
    here = probe_host(request.engine, path=engine_path)
    calibration = find_calibration(inspection, request, here, store=store or default_store_path())
    spread = Topology(addresses=tuple(node_addresses))
    planned = plan_for_host(inspection, request, here, calibration=calibration, spread=spread)
    if not confirm:
        return planned
    from ropewalk.serving.dry_run.confirm import confirm_plan

    return confirm_plan(planned, build=here.build)


def emit(plan: Plan, kind: Kind, *, accelerator: str | None = None) -> str:
    """A plan's launch record as a shell script, Kubernetes manifest, Slurm script or SkyPilot task.

    A checkpoint that is none of this machine's files is taken for one of the Hub. ``accelerator`` is
    SkyPilot's name of a GPU. Nothing is checked against a cluster. Raises :class:`UsageError` for a plan
    whose verdict is negative, and for what such a file cannot start.
    """
    from ropewalk.emit import emit as emit_plan
    from ropewalk.inspector.readers.hubsource import hub_id_of

    return emit_plan(plan, kind, hub=hub_id_of(plan.checkpoint), accelerator=accelerator)


def rope(
    source: Source | Inspection, *, context_len: int | None = None, engine: EngineName | None = None
) -> RopeTable:
    """The rotation rate and wavelength of each pair, and what scaling for a context length does to it.

    Without ``context_len`` it is the length that was trained. Raises :class:`CheckpointError`, and
    :class:`UsageError` where that length is unknown or the model has no rotary positions.
    """
    from ropewalk.planner.rope.decision import decide_rope
    from ropewalk.planner.rope.table import rope_table

    inspection = _inspection(source)
    engine = engine or default_engine(inspection)
    length = inspection.value("native_context") if context_len is None else context_len
    if length is None:
        raise UsageError("the checkpoint does not tell what it was trained for: give a context length")
    advice = decide_rope(inspection, context_len=length, engine=engine)
    return rope_table(inspection, advice, context_len=length, engine=engine)


def check(
    command: str | Sequence[str],
    *,
    checkpoint: Source | Inspection | None = None,
    engine_version: str | None = None,
    machine: Machine | None = None,
) -> CheckResult:
    """Judge a ``vllm serve`` or ``llama-server`` command line: what it comes to, what is wrong, its repair.

    ``command`` is its words, or one string as typed into a shell. Without ``checkpoint`` the command's own
    model is read, from this machine or the Hub; where it cannot be, the verdict is open.
    ``engine_version`` is the version whose rules apply, ``machine`` what is known of the devices. Nothing is
    started. Raises :class:`CheckpointError` for a checkpoint that is named or here and cannot be read, and
    :class:`UsageError` for a command that starts no engine.
    """
    from ropewalk.checking import check_command
    from ropewalk.planner.machine import Machine

    words = (command,) if isinstance(command, str) else command
    inspection, unread = _served_model(words) if checkpoint is None else (_inspection(checkpoint), None)
    return check_command(
        words,
        inspection=inspection,
        engine_version=engine_version,
        machine=machine or Machine(),
        unread=unread,
    )


def _served_model(words: Sequence[str]) -> tuple[Inspection | None, str | None]:
    """What a command serves, or why it could not be read."""
    from ropewalk.checking import model_source

    source = model_source(words)
    if source is None:
        return None, "it is named inside a container, or not at all"
    source = os.path.expandvars(os.path.expanduser(source))
    try:
        return inspect(source), None
    except CheckpointError as error:
        if os.path.lexists(source):
            raise
        return None, error.message


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
    from ropewalk.checking.foreign_log import open_log
    from ropewalk.checking.log_report import log_report

    log = open_log(Path(path))
    given = (command,) if isinstance(command, str) else command
    words = given or log.command
    inspection = None if checkpoint is None else _inspection(checkpoint)
    if inspection is None and words:
        inspection, _ = _served_model(words)
    return log_report(log, path=str(path), command=given, inspection=inspection)


def serve(
    source: Source | Inspection,
    *,
    context_len: int,
    engine: EngineName | None = None,
    settings: ServeSettings | None = None,
    **options: Any,
) -> Service:
    """Plan, check beforehand, start, and wait until the server has answered; use it in a ``with`` block.

    ``options`` are those of :func:`plan`; ``settings`` say where it listens, how long it may take, and
    whether it is verified. On leaving the block the server and all of its processes are stopped, unless
    :meth:`Service.detach` left it running. Raises :class:`CheckpointError`, :class:`UsageError`
    (``plan_refused``, ``does_not_fit``), :class:`PreflightError` for what is known to fail before anything is
    started, and :class:`EngineError`.
    """
    from ropewalk.serving.service import ServeSettings, start_service

    inspection = _inspection(source)
    settings = settings or ServeSettings()
    planned = plan(
        inspection, context_len=context_len, engine=engine, engine_path=settings.engine_path, **options
    )
    return start_service(planned, inspection, settings)


def measure(
    source: Source,
    *,
    context_len: int,
    arms: Sequence[str] = ("shipped", "auto"),
    engine: EngineName | None = None,
    engine_path: str | None = None,
    store: Path | None = None,
    resume: str | None = None,
    on: str | CampaignSettings | None = None,
    on_event: Callable[[Any], None] | None = None,
    **settings: Any,
) -> Measurement:
    """Serve each arm in turn and measure recall, memory and speed on identical prompts.

    ``arms``: ``shipped``, ``auto`` (what the plan decides), ``yarn:F``, ``unscaled``. ``settings`` are
    the fields of :class:`ropewalk.measuring.measure.MeasureSettings`; where cores are busy and no ``threads``
    are given, the engine takes as many as are idle. The run is written to the store as it goes; ``resume``
    continues one. ``on`` has each arm measured as a task of its own, here or on a cluster: see
    :class:`ropewalk.measuring.cluster.settings.CampaignSettings`. Raises :class:`CheckpointError`,
    :class:`EngineError`.
    """
    from ropewalk.measuring.cluster.settings import CampaignSettings
    from ropewalk.measuring.measure import MeasureSettings
    from ropewalk.measuring.store import RunStore, default_store_path

    inspection = inspect(source)
    campaign = CampaignSettings(on) if isinstance(on, str) else on
    if settings.get("threads") is None and (campaign is None or campaign.on == "local"):
        settings["threads"] = _threads_here()
    with RunStore(store or default_store_path()) as runs:
        return _measure(
            inspection,
            campaign,
            engine or default_engine(inspection),
            engine_path,
            model=str(source),
            context_len=context_len,
            arms=tuple(arms),
            settings=MeasureSettings(**settings),
            store=runs,
            on_event=on_event,
            resume=resume,
        )


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
    _require_torch()
    if (prompt is None) == (not tokens):
        raise UsageError("a prompt or token ids are needed, and not both", where={"field": "prompt"})
    from ropewalk.lab.attention import attend as attend_

    return attend_(
        os.fspath(source),
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


def doctor() -> Doctor:
    """What this machine can serve: engines with their versions, how to get the others, devices, memory."""
    from ropewalk.doctor import examine

    return examine()


def _measure(
    inspection: Inspection,
    campaign: CampaignSettings | None,
    engine: EngineName,
    engine_path: str | None,
    **run: Any,
) -> Measurement:
    """In this process, or as a campaign: both take the same run."""
    from ropewalk.serving.engines import pick_engine

    if campaign is None:
        from ropewalk.measuring.measure import run_measurement

        return run_measurement(inspection, build=pick_engine(engine, path=engine_path), **run)
    from ropewalk.measuring.cluster.campaign import planned_build, run_campaign

    build = planned_build(engine, run["settings"].plan, engine_path=engine_path)
    return run_campaign(inspection, build=build, engine_path=engine_path, campaign=campaign, **run)


def _threads_here() -> int | None:
    """As many threads as cores are idle; None, the engine's own choice, where all are."""
    from ropewalk.serving.host.devices import this_machine
    from ropewalk.serving.host.idle_cores import idle_cores

    cores = this_machine().cores
    idle = idle_cores(cores)
    return idle if idle < cores else None


def default_engine(inspection: Inspection) -> EngineName:
    """The engine that serves this format: llama-server for GGUF, vLLM for everything else."""
    return engine_for(inspection.checkpoint.format)


def _inspection(source: Source | Inspection) -> Inspection:
    return inspect(source) if isinstance(source, str | os.PathLike) else source


def _require_torch() -> None:
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise EngineMissingError(
            'attention is computed with torch: pip install "ropewalk[lab]"',
            code="extra_missing",
            where={"module": "torch"},
        ) from error
