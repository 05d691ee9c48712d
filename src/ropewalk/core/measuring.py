"""Measurements, in this process or as a campaign."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from ropewalk.core.arguments import Source, public, require_alone
from ropewalk.core.machine import idle_threads
from ropewalk.core.planning import default_engine
from ropewalk.core.reading import inspection_of
from ropewalk.core.runs import default_store_path
from ropewalk.validation import checked, record_of, require_known, require_type

if TYPE_CHECKING:
    from ropewalk.engines import EngineName
    from ropewalk.inspector.records import Inspection
    from ropewalk.measuring.arm_run import StartServer
    from ropewalk.measuring.events import Event
    from ropewalk.measuring.records import Measurement
    from ropewalk.measuring.settings import MeasureOptions, RunRequest
    from ropewalk.measuring.store import RunStore


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
@public
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

    require_type("store", store, Path | None)
    run = _run_request(request, options)
    inspection = inspection_of(source)
    engine = run.engine or default_engine(inspection)
    if run.settings.threads is None and (run.on is None or run.on.on == "local"):
        run = replace(run, settings=replace(run.settings, threads=idle_threads()))
    with RunStore(store or default_store_path()) as runs:
        return _measure(inspection, run, engine, runs, on_event, start)


def _run_request(request: RunRequest | None, options: Mapping[str, object]) -> RunRequest:
    """Options by the names of both records; what is in neither is refused."""
    from ropewalk.measuring.cluster.settings import CampaignSettings
    from ropewalk.measuring.settings import MeasureSettings, RunRequest

    if request is not None:
        require_alone(options)
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
