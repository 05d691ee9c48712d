"""The application in a browser: every page that is opened runs ``ropewalk tui`` as a process of its own.

Whoever reaches the page can read files and start servers as the user who serves it. So its address carries a
token that is new at each start, only this server's own names and its own page are answered, and what a page
began ends with the page, with the server, and when either is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import secrets
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp_jinja2
import jinja2
from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int

from ropewalk import core

MAX_SESSIONS = 8
MAX_COLUMNS, MAX_ROWS = 500, 200  # a terminal of a million by a million cells took 5 GB
MAX_MESSAGE_BYTES = 1024 * 1024
QUIT_SECONDS = 10.0  # an engine is stopped meanwhile; then the application is killed, and its engine with it
_HTTP_PORT = 80
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ANY = ("0.0.0.0", "::")  # noqa: S104  what is compared with, not listened on
_PAGE = Path(__file__).with_name("page")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class OwnServer(Server):
    """textual-serve's pages, for those who know the token, from its own origin only."""

    def __init__(self, argv: list[str], *, host: str, port: int, public_url: str | None) -> None:
        super().__init__(argv[0], host=host, port=port, title="ropewalk", public_url=public_url)
        self.token = secrets.token_urlsafe(24)
        self._argv = argv
        self._public = public_url.rstrip("/") if public_url is not None else None
        self._names = {*_LOOPBACK, host.lower()}
        self._sessions: dict[Session, web.WebSocketResponse] = {}

    @property
    def page_url(self) -> str:
        """The address to open, with the token."""
        name = "127.0.0.1" if self.host in _ANY else f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _HTTP_PORT else f":{self.port}"
        return f"{self._public or f'http://{name}{port}'}/?token={self.token}"

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        aiohttp_jinja2.setup(app, loader=jinja2.FileSystemLoader(_PAGE))
        app.add_routes(
            [
                web.get("/", self.handle_index, name="index"),
                web.get("/ws", self.handle_websocket),
                web.get("/ws/{token}", self.handle_websocket, name="websocket"),
                web.static("/static", self.statics_path, name="static"),
            ]
        )
        app.on_startup.append(self.on_startup)
        app.on_shutdown.append(self.on_shutdown)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse what is asked under another name (DNS rebinding) or by a page of another site."""
        hosts, origins = request.headers.getall("Host", []), request.headers.getall("Origin", [])
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            raise web.HTTPForbidden(text="not asked under a name of this application", headers=_HEADERS)
        if origins and origins not in ([f"http://{hosts[0]}"], [self._public_origin()]):
            raise web.HTTPForbidden(text="this application answers to its own page only", headers=_HEADERS)
        return await handler(request)

    async def handle_index(self, request: web.Request) -> web.Response:
        """The page, for who has the address that was printed."""
        self._require_token(request)
        base, nonce = self._public or f"http://{request.host}", secrets.token_urlsafe(12)
        context = {
            "nonce": nonce,
            "font_size": to_int(request.query.get("fontsize", "16"), 16),
            "app_websocket_url": f"ws{base.removeprefix('http')}/ws/{self.token}",
            "config": {"static": {"url": f"{base}/static/"}},
            "application": {"name": self.title},
        }
        page = aiohttp_jinja2.render_template("app_index.html", request, context)
        page.headers.update(_HEADERS | {"Content-Security-Policy": _policy(base, nonce)})
        return page

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Run the application for one page until either ends."""
        self._require_token(request)
        if len(self._sessions) >= MAX_SESSIONS:
            raise web.HTTPServiceUnavailable(text=f"{MAX_SESSIONS} pages are open; close one of them")
        socket = web.WebSocketResponse(heartbeat=15, max_msg_size=MAX_MESSAGE_BYTES)
        session = Session(self._argv, socket, self)
        self._sessions[session] = socket
        try:
            await socket.prepare(request)
            width, height = (to_int(request.query.get(name, ""), 80) for name in ("width", "height"))
            await session.start(width, height)
            await self._process_messages(socket, session)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, AssertionError):
            await socket.close(message=b"not a message of the page")
        finally:
            ending = asyncio.create_task(
                session.stop()
            )  # goes on where the page is gone and this is cancelled
            ending.add_done_callback(lambda done: self._sessions.pop(session, None))
            await asyncio.shield(ending)
        return socket

    async def on_startup(self, app: web.Application) -> None:
        self.console.print(f"ropewalk in a browser: {self.page_url}", highlight=False, soft_wrap=True)
        self.console.print("Who has this address can read files and start servers as you. Ctrl-C ends it.")

    async def on_shutdown(self, app: web.Application) -> None:
        """End every session, whatever it runs."""
        sessions = dict(self._sessions)
        await asyncio.gather(*(session.stop() for session in sessions))
        await asyncio.gather(*(socket.close() for socket in sessions.values()))

    def _require_token(self, request: web.Request) -> None:
        given = request.match_info.get("token") or request.query.get("token", "")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            raise web.HTTPForbidden(text="open the address that `ropewalk web` printed", headers=_HEADERS)

    def _is_own(self, host: str) -> bool:
        """Whether a Host header names this server. Where it listens on every address any plain one does: a
        name is what DNS rebinding needs."""
        if self._public is not None and host == urlsplit(self._public).netloc:
            return True
        try:
            asked = urlsplit(f"//{host}")
            name, port = (asked.hostname or "").lower(), asked.port or _HTTP_PORT
        except ValueError:
            return False
        return port == self.port and (name in self._names or (self.host in _ANY and _is_address(name)))

    def _public_origin(self) -> str | None:
        if self._public is None:
            return None
        parts = urlsplit(self._public)
        return f"{parts.scheme}://{parts.netloc}"


class Session(AppService):
    """One page's application: a process without a shell, killed with this one, ended with the page."""

    def __init__(self, argv: list[str], socket: web.WebSocketResponse, server: OwnServer) -> None:

        async def close() -> None:
            await socket.close()

        super().__init__(
            argv[0],
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=close,
            download_manager=server.download_manager,
        )
        self._argv = argv

    async def _open_app_process(self, width: int = 80, height: int = 24) -> asyncio.subprocess.Process:
        width, height = _clamped(width, height)
        process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._build_environment(width=width, height=height),
            preexec_fn=core.dies_with_this_process(),
        )
        self._process, self._stdin = process, process.stdin
        return process

    async def set_terminal_size(self, width: int, height: int) -> None:
        """Tell the application its size, within what a terminal may have."""
        await super().set_terminal_size(*_clamped(width, height))

    async def stop(self) -> None:
        """End the application and its engine: asked first, killed where it does not go. Idempotent."""
        process, task = self._process, self._task
        if process is None or task is None:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.send_meta({"type": "quit"}), 1.0)
        try:
            await asyncio.wait_for(process.wait(), QUIT_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        await asyncio.wait([task])


def _policy(base: str, nonce: str) -> str:
    """What the page may load: its own parts, from where it came."""
    parts = urlsplit(base)
    own = f"{parts.scheme}://{parts.netloc}"
    return (
        f"default-src 'none'; script-src {own} 'nonce-{nonce}'; style-src {own} 'unsafe-inline'; "
        f"font-src {own}; img-src {own} data:; connect-src ws{own.removeprefix('http')}; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )


def _clamped(width: int, height: int) -> tuple[int, int]:
    return max(1, min(int(width), MAX_COLUMNS)), max(1, min(int(height), MAX_ROWS))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def app_argv(checkpoint: str | None) -> list[str]:
    """What is run for every page; a checkpoint that begins with a dash is none of its options."""
    return [sys.executable, "-m", "ropewalk", "tui", *(["--", checkpoint] if checkpoint else [])]


def serve(checkpoint: str | None, *, host: str, port: int, public_url: str | None) -> None:
    """Serve the application until interrupted."""
    OwnServer(app_argv(checkpoint), host=host, port=port, public_url=public_url).serve()
