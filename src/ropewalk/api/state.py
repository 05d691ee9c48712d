"""What the routes share while the service runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import anyio.to_thread
from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from ropewalk import core
from ropewalk.api.jobs import Jobs
from ropewalk.api.metrics import Metrics
from ropewalk.api.settings import ApiSettings
from ropewalk.api.sources import Sources
from ropewalk.engines import EngineName
from ropewalk.jsonio import dumps
from ropewalk.serving.host.probe import Host

T = TypeVar("T")
_HERE_SECONDS = 10.0  # free memory moves, engines are seldom installed


class HostCache:
    """The engine and the devices of this machine, looked at again every few seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[EngineName, tuple[float, Host]] = {}

    def of(self, engine: EngineName) -> Host:
        """What this engine would have here."""
        with self._lock:  # asking an engine may start a process; once is enough
            until, here = self._seen.get(engine, (0.0, None))
            if here is None or time.monotonic() > until:
                here = core.probe_host(engine)
                self._seen[engine] = (time.monotonic() + _HERE_SECONDS, here)
            return here


@dataclass(frozen=True, slots=True)
class ServiceState:
    """One for each application."""

    settings: ApiSettings
    sources: Sources
    jobs: Jobs
    metrics: Metrics
    hosts: HostCache = field(default_factory=HostCache)

    async def in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        """The result of a function that blocks, run in a thread."""
        return await anyio.to_thread.run_sync(work, *arguments)


async def _state(request: Request) -> ServiceState:
    state: ServiceState = request.app.state.ropewalk
    return state


UseState = Annotated[ServiceState, Depends(_state)]


def json_response(record: Any, *, status: int = 200, location: str | None = None) -> Response:
    """A record as JSON; a name in a checkpoint that is no text becomes an escape instead of an error."""
    body = dumps(record, indent=None).encode("utf-8", "backslashreplace")
    headers = {"Location": location} if location else None
    return Response(body, status, headers=headers, media_type="application/json")
