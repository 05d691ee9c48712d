"""The application in a browser: what is run, who may connect, and what is left when a page goes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import aiohttp.web
import pytest
from aiohttp.test_utils import TestClient, TestServer

from ropewalk.serving.process.processes import is_alive, wait_until
from ropewalk.tui import web
from ropewalk.tui.web import OwnServer, app_argv

# An application that says its process id and its width and never reads: one that ignores being asked to quit.
STUBBORN = [
    sys.executable,
    "-c",
    "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "def say(text): sys.stdout.buffer.write(b'D' + len(text).to_bytes(4, 'big') + text)\n"
    "sys.stdout.buffer.write(b'__GANGLION__\\n')\n"
    "say(('%d %s' % (os.getpid(), os.environ['COLUMNS'])).encode()); sys.stdout.flush()\n"
    "time.sleep(60)",
]

Client = TestClient[aiohttp.web.Request, aiohttp.web.Application]


def test_the_checkpoint_is_one_word_of_the_command() -> None:
    argv = app_argv("models/it's $(here); rm")
    assert argv == [sys.executable, "-m", "ropewalk", "tui", "--", "models/it's $(here); rm"]
    assert app_argv(None)[-1] == "tui"


def server_at(port: int = 8001, host: str = "127.0.0.1", public_url: str | None = None) -> OwnServer:
    return OwnServer(STUBBORN, host=host, port=port, public_url=public_url)


@asynccontextmanager
async def running(server: OwnServer) -> AsyncIterator[Client]:
    """The server on a port of the test's own; Host and Origin are told by the requests."""
    async with TestClient(TestServer(await server._make_app())) as client:
        yield client


def status(server: OwnServer, path: str, headers: Mapping[str, str]) -> int:
    async def ask() -> int:
        async with running(server) as client, client.get(path, headers=headers) as answer:
            return answer.status

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("host", "origin", "expected"),
    [
        ("127.0.0.1:8001", "http://127.0.0.1:8001", 200),
        ("localhost:8001", "http://localhost:8001", 200),
        ("[::1]:8001", "http://[::1]:8001", 200),
        ("127.0.0.1:8001", None, 200),  # no browser
        ("127.0.0.1:8001", "http://evil.example", 403),  # a page of another site
        ("127.0.0.1:8001", "null", 403),  # a sandboxed frame, a data: address
        ("127.0.0.1:8001", "file://", 403),
        ("127.0.0.1:8001", "", 403),
        ("127.0.0.1:8001", "https://127.0.0.1:8001", 403),
        ("127.0.0.1:8001", "http://127.0.0.1:9000", 403),
        ("127.0.0.1:8001", "http://localhost:8001", 403),
        ("evil.example:8001", "http://evil.example:8001", 403),  # a name that was rebound to this machine
        ("127.0.0.1:9000", None, 403),
        ("127.0.0.1", None, 403),
        ("127.0.0.1:x", None, 403),
    ],
)
@pytest.mark.parametrize("path", ["/", "/ws"])
def test_only_its_own_page_is_answered(host: str, origin: str | None, expected: int, path: str) -> None:
    server = server_at()
    headers = {"Host": host} | ({"Origin": origin} if origin is not None else {})
    # The socket refuses a request that is none (400) only behind the guard.
    reached = 200 if path == "/" else 400
    found = status(server, f"{path}?token={server.token}", headers)
    assert found == (reached if expected == 200 else expected)


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=x", "/ws", "/ws/x", "/ws?token=x&width=80"])
def test_without_the_token_of_this_start_nothing_is_shown(path: str) -> None:
    server = server_at()
    headers = {"Host": "127.0.0.1:8001", "Origin": "http://127.0.0.1:8001"}
    assert status(server, path, headers) == 403
    assert server.token != server_at().token
    assert len(server.token) >= 32


@pytest.mark.parametrize(
    ("server", "host", "origin", "expected"),
    [
        (server_at(80), "127.0.0.1", "http://127.0.0.1", 200),
        (server_at(80), "127.0.0.1:80", None, 200),
        (server_at(8001, "0.0.0.0"), "192.168.0.7:8001", "http://192.168.0.7:8001", 200),
        (server_at(8001, "0.0.0.0"), "rebound.example:8001", "http://rebound.example:8001", 403),
        (server_at(8001, "0.0.0.0"), "192.168.0.7:8001", "http://192.168.0.8:8001", 403),
        (server_at(public_url="https://gpu.example/"), "gpu.example", "https://gpu.example", 200),
        (server_at(public_url="https://gpu.example"), "127.0.0.1:8001", "https://gpu.example", 200),
        (server_at(public_url="https://gpu.example"), "gpu.example", "null", 403),
    ],
)
def test_ports_addresses_and_a_proxy(server: OwnServer, host: str, origin: str | None, expected: int) -> None:
    headers = {"Host": host} | ({"Origin": origin} if origin is not None else {})
    assert status(server, f"/?token={server.token}", headers) == expected


def test_the_page_leads_to_its_own_socket_and_may_not_be_framed() -> None:
    server = server_at()

    async def ask() -> None:
        async with running(server) as client:
            answer = await client.get(f"/?token={server.token}", headers={"Host": "localhost:8001"})
            page, policy = await answer.text(), answer.headers["Content-Security-Policy"]
            assert f"ws://localhost:8001/ws/{server.token}" in page
            assert set(re.findall(r"(?:https?|wss?):[^\s\"';]+", page + policy)) == {
                "http://localhost:8001/static/css/xterm.css",
                "http://localhost:8001/static/js/textual.js",
                "http://localhost:8001/static/fonts/RobotoMono-VariableFont_wght.ttf",
                f"ws://localhost:8001/ws/{server.token}",
                "http://localhost:8001",
                "ws://localhost:8001",
            }
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["Referrer-Policy"] == "no-referrer"

    asyncio.run(ask())
    assert server.page_url == f"http://127.0.0.1:8001/?token={server.token}"
    assert server_at(80).page_url.startswith("http://127.0.0.1/?token=")


async def opened(
    client: Client, server: OwnServer, size: str = ""
) -> tuple[aiohttp.ClientWebSocketResponse, int, int]:
    """A page's socket, the process behind it and its width."""
    socket = await client.ws_connect(f"/ws/{server.token}{size}", headers={"Host": "127.0.0.1:8001"})
    pid, width = (await socket.receive_bytes()).split()
    return socket, int(pid), int(width)


def test_sizes_are_those_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "QUIT_SECONDS", 0.0)
    server = server_at()

    async def ask() -> int:
        async with running(server) as client:
            return (await opened(client, server, "?width=1000000&height=1000000"))[2]

    assert asyncio.run(ask()) == web.MAX_COLUMNS
    assert web._clamped(-5, 10**9) == (1, web.MAX_ROWS)


def test_a_closed_page_ends_its_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "QUIT_SECONDS", 0.0)
    server = server_at()

    async def ask() -> int:
        async with running(server) as client:
            socket, pid, _ = await opened(client, server)
            assert is_alive(pid)
            await socket.close()
            while server._sessions:
                await asyncio.sleep(0.01)
            return pid

    assert not is_alive(asyncio.run(ask()))


def test_the_end_of_the_server_ends_every_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "QUIT_SECONDS", 0.0)
    server = server_at()

    async def ask() -> list[int]:
        async with running(server) as client:
            return [(await opened(client, server))[1] for _ in range(2)]

    assert not any(map(is_alive, asyncio.run(ask())))


def test_sessions_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "QUIT_SECONDS", 0.0)
    monkeypatch.setattr(web, "MAX_SESSIONS", 1)
    server = server_at()

    async def ask() -> None:
        async with running(server) as client:
            await opened(client, server)
            with pytest.raises(aiohttp.WSServerHandshakeError, match="503"):
                await opened(client, server)

    asyncio.run(ask())


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_a_killed_server_takes_its_applications_along(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from types import SimpleNamespace as N\n"
        "from ropewalk.tui.web import Session\n"
        "async def main():\n"
        "    session = Session(sys.argv[1:], N(send_bytes=None, send_str=None, close=None), "
        "N(download_manager=None))\n"
        "    process = await session._open_app_process()\n"
        "    print(process.pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )

    async def ask() -> int:
        server = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, *STUBBORN, stdout=asyncio.subprocess.PIPE
        )
        assert server.stdout is not None
        pid = int(await server.stdout.readline())
        assert is_alive(pid)
        os.kill(server.pid, signal.SIGKILL)
        await server.wait()
        return pid

    pid = asyncio.run(ask())
    assert wait_until(lambda: not is_alive(pid), 30)
