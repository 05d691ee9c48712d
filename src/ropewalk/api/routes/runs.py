"""``/v1/runs``: past measurements, and those under way."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ropewalk import core
from ropewalk.api.bodies import RunBody, body_of
from ropewalk.api.jobs import JobEvent
from ropewalk.api.openapi import takes
from ropewalk.api.orders import MeasureOrder
from ropewalk.api.resuming import order_of
from ropewalk.api.sources import Sources
from ropewalk.api.state import ServiceState, UseState, json_response
from ropewalk.api.streams import EventStream, follow, last_event_id, once, unless_gone
from ropewalk.documents import RunList
from ropewalk.errors import RunActiveError
from ropewalk.jsonio import dumps
from ropewalk.measuring.events import RunEnded
from ropewalk.measuring.records import Measurement
from ropewalk.measuring.settings import MeasureSettings, RunRequest

router = APIRouter(tags=["Measure"])
_HAYSTACKS = ("prose", "noise")


@router.get("/v1/runs", response_model=RunList)
def runs(state: UseState) -> Response:
    """All runs, the newest first."""
    with core.open_store(state.settings.store) as store:
        return json_response(RunList(str(store.path), store.runs()))


@router.post("/v1/runs", status_code=202, response_model=Measurement, openapi_extra=takes(RunBody))
async def start_run(
    body: Annotated[RunBody, Depends(body_of(RunBody))], request: Request, state: UseState
) -> Response:
    """Measure recall, memory and speed of each arm; the answer is the run as it begins.

    It goes on when the client leaves, and when the service that was ended is started again. Its status is
    `interrupted` after a stop, and until then.
    """
    order = MeasureOrder(
        source=await state.in_thread(state.sources.address, body.checkpoint),
        request=RunRequest(
            context_len=body.context_len,
            arms=body.arms,
            engine=body.engine,
            settings=await state.in_thread(allowed_settings, body.settings, state.sources),
        ),
        store=str(state.settings.store),
    )
    return await _begun(order, request, state)


@router.get("/v1/runs/{run}", response_model=Measurement)
def run(run: str, state: UseState) -> Response:
    """One run as it stands, finished or not; an id may be shortened."""
    return json_response(_load(state, run))


@router.delete("/v1/runs/{run}", status_code=204)
def delete_run(run: str, state: UseState) -> Response:
    """Forget a run, its trials and its logs."""
    with core.open_store(state.settings.store) as store:
        run_id = store.find(run)
        if state.jobs.run(run_id):
            raise RunActiveError(f"run {run_id} is being measured; stop it first", where={"run": run_id})
        store.delete(run_id)
    return Response(status_code=204)


@router.get("/v1/runs/{run}/events", status_code=200, response_class=EventStream)
async def run_events(run: str, request: Request, state: UseState) -> Response:
    """What a measurement tells while it runs, from its start on, as server-sent events.

    Their names are those of `ropewalk.measuring.events`, the last one is `run_ended`. `Last-Event-ID` goes on
    after an event. Of a run that nobody measures here there is `run_ended` alone, with its status.
    """
    measurement = await state.in_thread(_load, state, run)
    job = state.jobs.run(measurement.run_id)
    if job is not None:
        return EventStream(follow(job, after=last_event_id(request.headers)))
    return EventStream(once(JobEvent(1, "run_ended", dumps(RunEnded(measurement), indent=None))))


@router.get("/v1/runs/{run}/report", response_class=HTMLResponse)
def run_report(run: str, state: UseState) -> Response:
    """The report of a run as one HTML page."""
    from ropewalk.report.html import measurement_html

    return HTMLResponse(measurement_html(_load(state, run)))


@router.post("/v1/runs/{run}/resume", status_code=202, response_model=Measurement)
async def resume_run(run: str, request: Request, state: UseState) -> Response:
    """Go on with a run that was interrupted or has failed, with its own target, arms and settings."""
    order = await state.in_thread(order_of, state, run)
    return await _begun(order, request, state)


@router.post("/v1/runs/{run}/stop", response_model=Measurement)
async def stop_run(run: str, state: UseState) -> Response:
    """Stop a measurement and its server; answers with the run once both have ended."""
    stored = await state.in_thread(_load, state, run)
    job = state.jobs.run(stored.run_id)
    if job is not None:
        job.stop()
        await job.last()
    return json_response(await state.in_thread(_load, state, stored.run_id))


def allowed_settings(settings: MeasureSettings, sources: Sources) -> MeasureSettings:
    """The same with paths for what names a file. Raises :class:`RefusedError`, :class:`CheckpointError`."""
    if settings.haystack not in _HAYSTACKS:
        settings = replace(settings, haystack=sources.file(settings.haystack))
    return replace(settings, plan=sources.allowed(settings.plan))


async def _begun(order: MeasureOrder, request: Request, state: ServiceState) -> Response:
    run_id = await unless_gone(request, state.jobs.measure(order))
    begun = await state.in_thread(_load, state, run_id)
    return json_response(begun, status=202, location=f"/v1/runs/{run_id}")


def _load(state: ServiceState, run: str) -> Measurement:
    with core.open_store(state.settings.store) as store:
        return store.load(run)
