"""The application in a browser: what is run, and who may connect."""

from __future__ import annotations

import asyncio
import shlex
import sys

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from textual_serve.server import Server

from ropewalk.tui.web import OwnServer, command_line


def test_the_checkpoint_is_quoted_for_the_shell() -> None:
    words = shlex.split(command_line("models/it's $(here); rm"))
    assert words == [sys.executable, "-m", "ropewalk", "tui", "models/it's $(here); rm"]
    assert shlex.split(command_line(None))[-1] == "tui"


@pytest.mark.parametrize(
    ("host", "origin", "allowed"),
    [
        ("127.0.0.1:8001", "http://127.0.0.1:8001", True),
        ("localhost:8001", "http://localhost:8001", True),
        ("127.0.0.1:8001", None, True),  # no browser
        ("127.0.0.1:8001", "http://evil.example", False),  # a page of another site
        ("evil.example:8001", "http://evil.example:8001", False),  # a name that was rebound to this machine
        ("127.0.0.1:8001", "http://127.0.0.1:9000", False),
    ],
)
def test_only_its_own_page_may_connect(
    host: str, origin: str | None, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connected(self: Server, request: web.Request) -> web.WebSocketResponse:
        return web.WebSocketResponse()

    monkeypatch.setattr(Server, "handle_websocket", connected)
    server = OwnServer("true", host="127.0.0.1", port=8001, public_url=None)
    headers = {"Host": host} | ({"Origin": origin} if origin else {})
    request = make_mocked_request("GET", "/ws", headers=headers)
    if allowed:
        asyncio.run(server.handle_websocket(request))
    else:
        with pytest.raises(web.HTTPForbidden):
            asyncio.run(server.handle_websocket(request))
