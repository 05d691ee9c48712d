"""The application in a browser: textual-serve runs ``ropewalk tui`` for every page that is opened.

Whoever reaches the page can read files and start servers as the user who serves it. So it listens on this
machine unless told otherwise, and refuses pages of other sites that connect through the user's browser.
"""

from __future__ import annotations

import shlex
import sys
from urllib.parse import urlsplit

from aiohttp import web
from textual_serve.server import Server

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_ANY = ("0.0.0.0", "::")  # noqa: S104  what is compared with, not listened on


class OwnServer(Server):
    """textual-serve's server that answers only to its own page."""

    def __init__(self, command: str, *, host: str, port: int, public_url: str | None) -> None:
        super().__init__(command, host=host, port=port, title="ropewalk", public_url=public_url)
        own = (*_LOOPBACK, host) if host not in _ANY else ()
        self._allowed = {f"{name}:{port}" for name in own}
        if public_url is not None:
            self._allowed.add(urlsplit(public_url).netloc)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Refuse a connection that a page of another site makes, or one through another site's name."""
        origin = urlsplit(request.headers.get("Origin", "")).netloc
        foreign = self._allowed and request.host not in self._allowed
        if foreign or (origin and origin != request.host and origin not in self._allowed):
            raise web.HTTPForbidden(text="this application answers to its own page only")
        return await super().handle_websocket(request)


def command_line(checkpoint: str | None) -> str:
    """What is run for every page, quoted for the shell that textual-serve uses."""
    words = [sys.executable, "-m", "ropewalk", "tui", *([checkpoint] if checkpoint else [])]
    return shlex.join(words)


def serve(checkpoint: str | None, *, host: str, port: int, public_url: str | None) -> None:
    """Serve until Ctrl-C."""
    OwnServer(command_line(checkpoint), host=host, port=port, public_url=public_url).serve()
