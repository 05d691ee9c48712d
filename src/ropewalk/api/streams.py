"""Events of a job as server-sent events, and what happens when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ropewalk.api.jobs import Job, JobEvent

EVENT_STREAM = "text/event-stream"
SILENT_SECONDS = 15.0  # proxies give up on a silent connection, the least patient ones after 30
T = TypeVar("T")


class EventStream(StreamingResponse):
    """The answer that stays open; ``on_close`` is called at its end, whoever ends it."""

    media_type = EVENT_STREAM

    def __init__(self, lines: AsyncIterator[str], *, on_close: Callable[[], None] | None = None) -> None:
        super().__init__(lines)
        self._on_close = on_close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self._on_close is not None:
                self._on_close()


async def follow(job: Job, *, after: int = 0) -> AsyncIterator[str]:
    """Every event of a job after a number, those of the past first, until it ends."""
    while True:
        events = await job.after(after, seconds=SILENT_SECONDS)
        for event in events:
            yield lines_of(event)
            after = event.number
        if not events:
            if job.is_ended:
                return
            yield ": still at it\n\n"


async def once(event: JobEvent) -> AsyncIterator[str]:
    """A stream of one event: of what has ended already."""
    yield lines_of(event)


def lines_of(event: JobEvent) -> str:
    """An event in the form of the HTML standard, section 9.2."""
    return f"id: {event.number}\nevent: {event.name}\ndata: {event.data}\n\n"


def last_event_id(headers: Mapping[str, str]) -> int:
    """The number after which a client that lost its connection goes on; 0 for the start."""
    given = headers.get("last-event-id", "")
    return int(given) if given.isdecimal() and len(given) < 10 else 0


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """The result of some work; cancels it, and raises ClientDisconnect, when the client goes away."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    if task.cancelled():
        raise ClientDisconnect
    return task.result()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
