"""Ports: free ones, taken ones, and those that only look free."""

from __future__ import annotations

import socket

import pytest

from ropewalk.errors import EngineError
from ropewalk.serving.process.ports import connect_host, free_port, require_free


def test_a_free_port_can_be_used() -> None:
    port = free_port()
    assert 1024 <= port <= 65535
    require_free(port)


@pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0"])
def test_a_port_with_a_listener(bound: str) -> None:
    with socket.create_server((bound, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            EngineError, match=f"port {port} on 127.0.0.1 cannot be used: another server answers"
        ):
            require_free(port)
        with pytest.raises(EngineError):
            require_free(port, host="0.0.0.0")


def test_a_listener_that_would_share_its_port() -> None:
    # vLLM 0.32 sets SO_REUSEPORT: a second server starts beside the first, and either may answer.
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(EngineError) as caught:
            require_free(other.getsockname()[1])
    assert caught.value.code == "port_in_use"


def test_a_port_that_is_bound_and_not_listened_to() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        with pytest.raises(EngineError, match="it is taken"):
            require_free(other.getsockname()[1])


def test_an_address_that_is_not_ours() -> None:
    with pytest.raises(EngineError, match=r"203\.0\.113\.7 cannot be used: Cannot assign requested address"):
        require_free(free_port(), host="203.0.113.7")  # TEST-NET-3, RFC 5737


@pytest.mark.parametrize(
    ("host", "reached"), [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.1", "10.0.0.1")]
)
def test_where_a_server_is_reached(host: str, reached: str) -> None:
    assert connect_host(host) == reached
