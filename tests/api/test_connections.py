"""Connections that ask for nothing make room for those that do."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator

import pytest
from tests.api.conftest import Served

from ropewalk.api import connections


@contextlib.contextmanager
def silent(service: Served, number: int) -> Iterator[list[socket.socket]]:
    host, port = service.url.removeprefix("http://").split(":")
    with contextlib.ExitStack() as stack:
        address = (host, int(port))
        yield [stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(number)]


def test_silent_connections_shut_nobody_out(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    with silent(service, 20) as opened:
        assert service.client.get("/healthz").status_code == 200
        ended, _, _ = select.select(opened, [], [], 30)
        assert ended
        assert ended[0].recv(1) == b""


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT"])
def test_a_head_that_does_not_come(service: Served, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(connections, "MAX_HEADER_SECONDS", 0.01)
    with silent(service, 1) as [connection]:
        connection.sendall(sent)
        assert connection.recv(1) == b""
