"""Engines that print, log or answer without end: each is held to a limit, and ended where only asked."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from ropewalk import limits
from ropewalk.errors import EngineError, EngineTimeoutError
from ropewalk.serving import client as client_module
from ropewalk.serving.client import HttpClient
from ropewalk.serving.engines import find
from ropewalk.serving.process import engine_process
from ropewalk.serving.process.engine_process import LogTail


def test_a_program_that_prints_for_ever_is_read_to_a_mebibyte_and_ended() -> None:
    printed = find.run([sys.executable, "-c", "while True: print('version: 1 (abc)' * 100)"])
    assert printed is not None
    assert len(printed) == limits.MAX_PRINTED_BYTES == 2**20


def test_a_program_that_never_ends_is_ended_with_what_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "_ASK_SECONDS", 0.3)
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import signal; signal.pause()'])"
    assert find.run([sys.executable, "-c", code]) is None  # the pipe is closed, or this would wait


def test_a_program_that_is_none_says_nothing(tmp_path: Path) -> None:
    assert find.run([str(tmp_path / "absent")]) is None
    assert find.run([sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr)"]) in (
        "out\nerr\n",
        "err\nout\n",
    )


def test_of_a_huge_log_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(2**31)  # sparse
        file.seek(0, 2)
        file.write(b"\nERROR: out of memory\n" + b"x" * 100)
    monkeypatch.setattr(engine_process, "MAX_ENGINE_LOG_READ_BYTES", 2**20)
    tail = LogTail(log)
    assert tail.read_new()[-1] == "ERROR: out of memory"
    with log.open("ab") as file:
        file.write(b"y\nnext\n")
    assert tail.read_new() == ["x" * 100 + "y", "next"]


def test_of_an_endless_line_the_beginning_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_process, "MAX_ENGINE_LOG_LINE_BYTES", 10)
    log = tmp_path / "log"
    tail = LogTail(log)
    for part in (b"0123456789abc", b"def", b"ghi\nshort\n"):
        with log.open("ab") as file:
            file.write(part)
        lines = tail.read_new()
    assert lines == ["0123456789", "short"]


class Endless(BaseHTTPRequestHandler):
    """Answers with a list that never ends, a piece at a time."""

    piece = b"[" * 65536

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(self.piece)
        except OSError:  # the client has had enough
            pass

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def endless() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Endless)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_answer_without_end_is_cut_off(endless: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MAX_ANSWER_BYTES", 2**20)
    with HttpClient(endless) as client:
        assert client.healthy()
        with pytest.raises(EngineError, match=r"/v1/models answers more than 1\.00 MiB") as caught:
            client._get("/v1/models")
    assert caught.value.code == "engine_answer_too_large"


def test_an_answer_that_goes_on_past_its_time_is_cut_off(
    endless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr(client_module, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    with HttpClient(endless) as client, pytest.raises(EngineTimeoutError, match="within 60 s"):
        client._get("/v1/models")
