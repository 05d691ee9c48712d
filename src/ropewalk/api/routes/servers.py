"""``/v1/servers``: what runs, and starting and stopping it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from ropewalk import core
from ropewalk.api.bodies import ServerBody, body_of
from ropewalk.api.jobs import record_of
from ropewalk.api.openapi import takes
from ropewalk.api.orders import ServeOrder
from ropewalk.api.problems import RefusedError
from ropewalk.api.state import UseState, json_response
from ropewalk.api.streams import EVENT_STREAM, EventStream, follow, unless_gone
from ropewalk.documents import ServerList
from ropewalk.errors import UsageError
from ropewalk.serving.process.detached import DetachedServer

router = APIRouter(tags=["Serve"])


@router.get("/v1/servers", response_model=ServerList)
def servers() -> Response:
    """The servers that were left running, by this service or by `ropewalk serve --detach`."""
    return json_response(core.servers())


@router.post(
    "/v1/servers",
    status_code=201,
    response_model=DetachedServer,
    responses={200: {"description": "The steps of the start", "content": {EVENT_STREAM: {}}}},
    openapi_extra=takes(ServerBody),
)
async def start_server(
    body: Annotated[ServerBody, Depends(body_of(ServerBody))], request: Request, state: UseState
) -> Response:
    """Plan, check, start, and answer once the server has answered: after minutes for a large model.

    It listens on the loopback address of this machine and outlives the service. With
    `Accept: text/event-stream` each `step` is told, then `ready` or `problem`. A client that goes away
    before has the start undone.
    """
    order = ServeOrder(
        source=await state.in_thread(state.sources.address, body.checkpoint),
        request=await state.in_thread(state.sources.allowed, body.request),
        port=body.port,
        threads=body.threads,
        verify=body.verify,
    )
    job = await state.jobs.serve(order)
    if EVENT_STREAM in request.headers.get("accept", ""):
        return EventStream(follow(job), on_close=job.stop)
    try:
        record = record_of(await unless_gone(request, job.last()))
    finally:
        job.stop()
    return json_response(record, status=201, location=f"/v1/servers/{record['pid']}")


@router.get("/v1/servers/{server}", response_model=DetachedServer)
def server(server: str) -> Response:
    """One of them, by its name, port or process id."""
    return json_response(_find(server))


@router.delete("/v1/servers/{server}", status_code=204)
def stop_server(server: str) -> Response:
    """Stop one of them, by its name, port or process id, with all of its processes."""
    core.stop_server(_find(server))
    return Response(status_code=204)


def _find(server: str) -> DetachedServer:
    try:
        return core.find_server(server)
    except UsageError as error:
        raise RefusedError(error.message, status=404, code="server_not_found", where=error.where) from None
