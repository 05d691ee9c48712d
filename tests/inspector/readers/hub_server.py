"""A Hub of our own on 127.0.0.1: listings, files, ranges, and every way in which they can go wrong."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    path: str
    range: str | None
    authorization: str | None

    @property
    def file(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass
class Hub:
    """``folders`` holds the repositories by id; the rest is how the server behaves."""

    folders: dict[str, Path]
    address: str = ""
    ranges: Literal["kept", "ignored", "short"] = "kept"
    short_bytes: int = 50_000
    revisions: tuple[str, ...] = ("main", COMMIT)
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Status and X-Error-Code by the end of the path."""
    failures: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Statuses and headers of the next answers, before any good one."""
    redirect_to: str | None = None
    listing: dict[str, Any] | bytes | None = None
    requests: list[Request] = field(default_factory=list)
    sent: int = 0

    def asked(self, file: str) -> list[Request]:
        return [request for request in self.requests if request.file == file]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        path = unquote(self.path)
        self.hub.requests.append(Request(path, self.headers.get("range"), self.headers.get("authorization")))
        refusal = next((value for end, value in self.hub.refusals.items() if path.endswith(end)), None)
        if self.hub.failures:
            status, headers = self.hub.failures.pop(0)
            self.answer(status, headers=headers)
        elif refusal is not None:
            self.answer(refusal[0], headers={"X-Error-Code": refusal[1]} if refusal[1] else {})
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path):
            self.list_files(match[1], match[2])
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self.send_file(match[1], match[3])
        else:
            self.answer(404)

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def list_files(self, repo: str, revision: str) -> None:
        folder = self.hub.folders.get(repo)
        if folder is None or revision not in self.hub.revisions:
            word = "RepoNotFound" if folder is None else "RevisionNotFound"
            self.answer(404, headers={"X-Error-Code": word})
            return
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        listing = self.hub.listing or {"sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
        self.answer(200, listing if isinstance(listing, bytes) else json.dumps(listing).encode())

    def send_file(self, repo: str, name: str) -> None:
        path = self.hub.folders[repo] / name
        if self.hub.redirect_to is not None:
            self.answer(302, headers={"Location": self.hub.redirect_to + self.path})
        elif not path.is_file():
            self.answer(404, headers={"X-Error-Code": "EntryNotFound"})
        elif "range" not in self.headers or self.hub.ranges == "ignored":
            self.send_body(200, path, 0, path.stat().st_size, {})
        else:
            self.send_range(path, *map(int, re.findall(r"\d+", self.headers["range"])))

    def send_range(self, path: Path, start: int, last: int) -> None:
        size = path.stat().st_size
        stop = min(last + 1, size)
        if start >= size:
            self.answer(416, headers={"Content-Range": f"bytes */{size}"})
            return
        if self.hub.ranges == "short":
            stop = min(stop, start + self.hub.short_bytes)
        self.send_body(206, path, start, stop, {"Content-Range": f"bytes {start}-{stop - 1}/{size}"})

    def send_body(self, status: int, path: Path, start: int, stop: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(stop - start), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        with path.open("rb") as stream:
            stream.seek(start)
            try:
                while start < stop:
                    chunk = stream.read(min(65_536, stop - start))
                    self.wfile.write(chunk)
                    start += len(chunk)
                    self.hub.sent += len(chunk)
            except OSError:  # the reader has what it wants and closed the connection
                self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that the client closed is part of the tests."""


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    """Run the server until the block ends."""
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
