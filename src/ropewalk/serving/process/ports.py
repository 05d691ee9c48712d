"""Is a port ours to take? Asked before an engine starts, since not every engine notices.

vLLM sets ``SO_REUSEPORT`` (``entrypoints/launchers/launcher.py``, 0.32): a second server on the same port
starts beside the first, and requests go to either.
"""

from __future__ import annotations

import errno
import socket

from ropewalk.errors import EngineError

_CONNECT_SECONDS = 0.5
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - compared, not bound


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port that is free at this moment."""
    with _socket(host) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def require_free(port: int, *, host: str = "127.0.0.1") -> None:
    """Raise :class:`EngineError` (``port_in_use``) unless a server could listen there alone."""
    problem = _listener(host, port) or _bind_problem(host, port)
    if problem:
        raise EngineError(
            f"port {port} on {host} cannot be used: {problem}; choose another with --port, or --port 0",
            code="port_in_use",
            where={"host": host, "port": port},
        )


def connect_host(host: str) -> str:
    """The address at which a server that listens on ``host`` is reached from this machine."""
    return _ANY.get(host, host)


def _listener(host: str, port: int) -> str | None:
    with _socket(host) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        answered = probe.connect_ex((connect_host(host), port)) == 0
    return "another server answers there" if answered else None


def _bind_problem(host: str, port: int) -> str | None:
    with _socket(host) as probe:
        # Only against connections that linger after a server ended; a listener is still noticed.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return "it is taken" if error.errno == errno.EADDRINUSE else error.strerror
    return None


def _socket(host: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM)
