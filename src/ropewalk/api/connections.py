"""Connections that only take up room are closed: silent ones after seconds, and earlier when many come."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ropewalk.limits import MAX_CONNECTIONS, MAX_HEADER_SECONDS


class GuardedConnection(H11Protocol):
    """A connection whose client has ``MAX_HEADER_SECONDS`` for the head of each request.

    When three quarters of ``MAX_CONNECTIONS`` are open, each further one closes one that asks for nothing:
    otherwise 512 silent connections would shut everybody out.
    """

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS * 3 // 4:
            guarded = (other for other in self.connections if isinstance(other, GuardedConnection))
            if silent := next((other for other in guarded if other is not self and other.is_silent), None):
                silent.transport.close()
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Part of a request has come; the head may still be incomplete."""
        super().data_received(data)
        if self.is_silent:
            self._wait_for_head()
        else:
            self._cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._cancel()
        super().connection_lost(exc)

    @property
    def is_silent(self) -> bool:
        """Whether no request is being received or answered."""
        return self.conn.their_state is h11.IDLE and (self.cycle is None or self.cycle.response_complete)

    def _wait_for_head(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(MAX_HEADER_SECONDS, self.transport.close)

    def _cancel(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
