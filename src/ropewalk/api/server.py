"""The service in front of a socket, until it is told to stop."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from ropewalk.api.app import make_app
from ropewalk.api.connections import GuardedConnection
from ropewalk.api.settings import ApiSettings
from ropewalk.api.state import ServiceState
from ropewalk.errors import UsageError
from ropewalk.limits import MAX_CONNECTIONS

FINISH_SECONDS = 5  # for what is being answered when the service is to stop
_BACKLOG = 256


class HttpServer(uvicorn.Server):
    """Stops the jobs before anything else, so that the streams of their events end by themselves."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                proxy_headers=False,  # whoever writes such a header could be anybody
                server_header=False,
                http=GuardedConnection,
                limit_concurrency=MAX_CONNECTIONS,
                timeout_graceful_shutdown=FINISH_SECONDS,
            )
        )
        self._state: ServiceState = app.state.ropewalk

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """What uvicorn does when it is told to stop."""
        await self._state.jobs.close()
        await super().shutdown(sockets)


def run(settings: ApiSettings, port: int, *, ready: Callable[[str], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; ``ready`` is told the address. Raises :class:`UsageError`."""
    app = make_app(settings)
    with listen(settings.host, port) as listener:
        ready(address_of(listener))
        with contextlib.suppress(KeyboardInterrupt):
            HttpServer(app).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; 0 takes a free port. Raises :class:`UsageError` where it cannot."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another with --port, or --port 0",
            code="port_in_use",
            where={"host": host, "port": port},
        ) from error
    # Inherited by every connection. asyncio sets it where a socket names its protocol, which these do not;
    # without it an answer's body waits 40 ms until the client has acknowledged the head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def address_of(listener: socket.socket) -> str:
    """``http://127.0.0.1:7673``."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
