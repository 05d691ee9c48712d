"""Serves each arm in turn and measures recall, memory and speed on identical prompts."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from ropewalk import jsonio
from ropewalk.engines import EngineBuild
from ropewalk.errors import RunActiveError, UsageError
from ropewalk.findings import Finding
from ropewalk.inspector.records import Inspection
from ropewalk.measuring.arm_run import ArmRun, MeasuredServer, StartServer
from ropewalk.measuring.arms import Arm, distinct, expanded, plan_arm
from ropewalk.measuring.calibrate import calibration_of, key_of
from ropewalk.measuring.events import Event, RunEnded, RunStarted
from ropewalk.measuring.fingerprint import fingerprint
from ropewalk.measuring.loss.records import LossSpan
from ropewalk.measuring.recall.prompt import longest_prompt
from ropewalk.measuring.records import Measurement, RunStatus, Trial
from ropewalk.measuring.session import OnEvent, Session, settings_data
from ropewalk.measuring.settings import MeasureSettings, default_lengths
from ropewalk.measuring.store import RunStore
from ropewalk.planner.pace import pace_of
from ropewalk.planner.records import Launch
from ropewalk.serving.host.devices import this_machine
from ropewalk.serving.host.probe import Host, host_device, host_for
from ropewalk.serving.service import require_allowed, require_fit
from ropewalk.units import format_tokens

__all__ = ["MeasureSettings", "run_measurement"]

Seen = TypeVar("Seen", Trial, LossSpan)


def _start(launch: Launch, log_path: Path) -> AbstractContextManager[MeasuredServer]:
    from ropewalk.serving.launcher import start

    return start(launch, log_path=log_path)


def _ignore(event: Event) -> None:
    """Nobody listens."""


def run_measurement(
    inspection: Inspection,
    *,
    model: str,
    build: EngineBuild,
    context_len: int,
    arms: Sequence[str],
    settings: MeasureSettings,
    store: RunStore,
    on_event: OnEvent | None = None,
    resume: str | None = None,
    start: StartServer | None = None,
) -> Measurement:
    """Measure a checkpoint under each arm and return the run as it stands in the store.

    ``context_len`` is the target in tokens; ``shipped`` is served at its trained context, every other arm
    at the target. Every trial is stored as it ends: after Ctrl-C (status ``interrupted``), or after a
    failure, ``resume`` names the run and goes on with its own target, arms and settings. A server that
    fails ends its arm with a finding. Raises :class:`UsageError` for settings that cannot be measured and
    for a run that is of other weights or another engine, or is being measured, :class:`RunStoreError`.
    """
    here = host_for(build)
    begun = begin(
        inspection,
        model=model,
        here=here,
        context_len=context_len,
        arms=arms,
        settings=settings,
        store=store,
        resume=resume,
    )
    planned = begun.arms
    session = Session(
        frame=begun.frame,
        settings=begun.settings,
        inspection=inspection,
        model=model,
        build=build,
        arms=planned,
        store=store,
        emit=on_event or _ignore,
        pace=pace_of(planned[0].plan.compute, context_len=planned[0].plan.context_len),
        trials=by_arm(planned, store.trials(begun.frame.run_id)),
        losses=by_arm(planned, store.losses(begun.frame.run_id)),
    )
    if resume is None:
        session.note(*_thread_findings(begun.frame, begun.settings))
    measurement = _measure(session, start or _start)
    _calibrate(session, measurement, here)
    session.emit(RunEnded(measurement))
    return measurement


@dataclass(frozen=True, slots=True)
class Begun:
    """A run in the store, new or resumed: its record so far, the whole grid, the arms that differ."""

    frame: Measurement
    settings: MeasureSettings
    arms: tuple[Arm, ...]


def begin(
    inspection: Inspection,
    *,
    model: str,
    here: Host,
    context_len: int,
    arms: Sequence[str],
    settings: MeasureSettings,
    store: RunStore,
    resume: str | None,
) -> Begun:
    """Put a new run into the store, or take up the one that ``resume`` names, as it was asked for then.

    ``here`` is what the arms are planned for. Raises as :func:`run_measurement` does.
    """
    frame = store.frame(resume) if resume else None
    if frame:
        _require_free(store, frame)
        settings, arms, context_len = _settings_of(frame), frame.settings["arms"], frame.target_len
    if not arms:
        raise UsageError("there is no arm to measure", where={"field": "arms"})
    planned, doubles = distinct(
        plan_arm(inspection, arm, context_len=context_len, here=here, options=settings.plan)
        for arm in expanded(arms, inspection, context_len=context_len)
    )
    require_allowed(planned[0].plan)
    for arm in planned:
        require_fit(arm.plan)
    settings = _with_lengths(settings.checked(), planned)
    _require_served(settings, planned)
    weights = fingerprint(model, inspection.checkpoint.files)
    if frame is None:
        frame = _new_frame(inspection, planned, context_len=context_len, weights=weights, settings=settings)
        frame = replace(frame, findings=tuple(_double_finding(*double) for double in doubles))
        store.create(frame)
    _require_same_weights(frame, weights)
    return Begun(frame, settings, tuple(planned))


def _measure(session: Session, start: StartServer) -> Measurement:
    """All arms, one after the other; whatever happens, the store knows how it ended."""
    session.note(status="running", finished=None)
    session.emit(RunStarted(session.run_id, tuple(arm.name for arm in session.arms)))
    if session.settings.minutes is None:
        session.tell_grid()
    status: RunStatus = "failed"
    try:
        for arm in session.arms:
            run = ArmRun(session, arm)
            if not run.is_done:
                run.measure(start, session.store.log_path(session.run_id, arm.name))
        seen = (*session.trials.values(), *session.losses.values())
        status = "finished" if any(seen) else "failed"
    except KeyboardInterrupt:
        status = "interrupted"
    finally:
        session.note(status=status, finished=utc_now() if status == "finished" else None)
    return session.store.load(session.run_id)


def _calibrate(session: Session, measurement: Measurement, here: Host) -> None:
    """Keep the speed of this machine for the plans to come, once the run is whole: per cache type."""
    if measurement.status != "finished":
        return
    for types in dict.fromkeys(arm.cache_types for arm in session.arms):
        alike = [arm for arm in session.arms if arm.cache_types == types]
        _calibrate_alike(session, measurement, alike, here)


def _calibrate_alike(session: Session, measurement: Measurement, alike: Sequence[Arm], here: Host) -> None:
    """These arms compute the same way, whatever their rope."""
    request = alike[0].plan.request
    device = host_device(request, here)
    trials = [trial for arm in alike for trial in session.trials[arm.name]]
    calibration = calibration_of(session.run_id, measurement.arms, trials)
    if device is None or calibration is None:
        return
    key = key_of(
        request,
        build=session.build,
        device=device.id,
        machine=measurement.machine,
        checkpoint=measurement.checkpoint_fingerprint,
        threads=session.settings.threads,
    )
    session.store.save_calibration(session.run_id, calibration, key=key.text())


def _new_frame(
    inspection: Inspection,
    arms: Sequence[Arm],
    *,
    context_len: int,
    weights: str,
    settings: MeasureSettings,
) -> Measurement:
    created = utc_now()
    return Measurement(
        run_id=f"{created[:16].replace('-', '').replace(':', '').replace('T', '-')}-{secrets.token_hex(2)}",
        status="running",
        created=created,
        finished=None,
        checkpoint=inspection.checkpoint.source,
        checkpoint_fingerprint=weights,
        machine=this_machine(),
        target_len=context_len,
        settings=settings_data(settings, arms=[arm.name for arm in arms]),
        arms=(),
        comparison=None,
        trained_len=inspection.value("native_context"),
    )


def _with_lengths(settings: MeasureSettings, arms: Sequence[Arm]) -> MeasureSettings:
    contexts = [arm.plan.context_len for arm in arms]
    lengths = settings.lengths or default_lengths(contexts, answer_tokens=settings.longest_answer)
    return replace(settings, lengths=tuple(sorted(set(lengths))))


def _require_served(settings: MeasureSettings, arms: Sequence[Arm]) -> None:
    """Raise :class:`UsageError` for a length that no arm has room for beside an answer."""
    most = max(arm.plan.context_len for arm in arms)
    longest = longest_prompt(most, answer_tokens=settings.longest_answer)
    beyond = [length for length in settings.lengths or () if length > longest]
    if beyond:
        raise UsageError(
            f"{format_tokens(beyond[0])} tokens do not fit a context of {format_tokens(most)}: the longest "
            f"prompt is {format_tokens(longest)}, beside {settings.longest_answer} for the answer",
            where={"field": "lengths", "value": beyond[0], "most": longest},
        )


def _settings_of(frame: Measurement) -> MeasureSettings:
    stored = {name: value for name, value in frame.settings.items() if name != "arms"}
    return jsonio.from_data(MeasureSettings, stored)


def by_arm(arms: Sequence[Arm], seen: Sequence[Seen]) -> dict[str, list[Seen]]:
    """What was seen of each arm, in the order in which it was."""
    return {arm.name: [one for one in seen if one.arm == arm.name] for arm in arms}


def _require_same_weights(frame: Measurement, weights: str) -> None:
    if frame.checkpoint_fingerprint != weights:
        raise UsageError(
            f"run {frame.run_id} is of other weights than these; start a new run",
            code="run_not_resumable",
            where={"run": frame.run_id, "measured": frame.checkpoint_fingerprint, "given": weights},
        )


def _require_free(store: RunStore, frame: Measurement) -> None:
    owner = store.active_owner(frame.run_id)
    if owner is not None:
        raise RunActiveError(
            f"run {frame.run_id} is being measured by process {owner.pid}",
            where={"run": frame.run_id, "pid": owner.pid},
        )


def _thread_findings(frame: Measurement, settings: MeasureSettings) -> tuple[Finding, ...]:
    """Speed is that of the threads used, which may be fewer than a server would take on its own."""
    if settings.threads is None or settings.threads >= frame.machine.cores:
        return ()
    message = f"measured with {settings.threads} of {frame.machine.cores} cores: a quiet machine is faster"
    where = {"threads": settings.threads, "cores": frame.machine.cores}
    return (Finding("fewer_threads", "info", message, where),)


def _double_finding(arm: Arm, same: Arm) -> Finding:
    return Finding(
        "same_configuration",
        "info",
        f"{arm.name} serves the same as {same.name} here; it was measured once",
        {"arm": arm.name, "same_as": same.name},
    )


def utc_now() -> str:
    """The moment as records have it: UTC in ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
