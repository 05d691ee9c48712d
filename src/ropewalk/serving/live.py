"""What a running server is doing: looked at from time to time, as rates since the last look."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from ropewalk.errors import EngineError
from ropewalk.serving.host.process_memory import Resident, resident
from ropewalk.serving.launcher import RunningServer
from ropewalk.serving.process.group import RunningNode
from ropewalk.serving.server_report import ServerLoad

Activity = Literal["idle", "busy", "silent", "unsupported"]


@dataclass(frozen=True, slots=True)
class NodeMoment:
    """A node of a group that is watched from here, and the memory of its processes on this machine."""

    node: RunningNode
    memory: Resident | None


@dataclass(frozen=True, slots=True)
class Moment:
    """One look. ``state`` is ``silent`` where the server did not answer, ``load`` then the one before, and
    ``unsupported`` for an engine that does not say.

    Rates are tokens per second, the last that were seen; None before any, memory None where the system does
    not tell.
    """

    state: Activity
    uptime_seconds: float
    load: ServerLoad | None
    prompt_rate: float | None
    generated_rate: float | None
    memory: Resident | None
    nodes: tuple[NodeMoment, ...] = ()


class Watch:
    """Looks at a server; rates are over the time between looks, by the engine's own clock if it has one."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._began = self._looked = time.monotonic()
        self._load: ServerLoad | None = None
        self._prompt_rate: float | None = None
        self._generated_rate: float | None = None

    def look(self) -> Moment:
        """What it is doing now. Raises :class:`EngineFailedError` if it has ended."""
        self._server.require_alive()
        now = time.monotonic()
        try:
            load = self._server.client.load()
        except EngineError as error:
            state: Activity = "unsupported" if error.code == "not_reported" else "silent"
        else:
            state = "busy" if load.running or load.waiting else "idle"
            if self._load is not None:
                self._note_rates(self._load, load, now - self._looked)
            self._load, self._looked = load, now
        return Moment(
            state=state,
            uptime_seconds=now - self._began,
            load=self._load,
            prompt_rate=self._prompt_rate,
            generated_rate=self._generated_rate,
            memory=resident(self._server.pid),
            nodes=tuple(NodeMoment(node, resident(node.pid)) for node in self._server.nodes),
        )

    def _note_rates(self, before: ServerLoad, now: ServerLoad, seconds: float) -> None:
        reading = _between(before.prompt_seconds, now.prompt_seconds, seconds)
        writing = _between(before.generated_seconds, now.generated_seconds, seconds)
        read = _rate(now.prompt_tokens - before.prompt_tokens, reading)
        written = _rate(now.generated_tokens - before.generated_tokens, writing)
        self._prompt_rate = read or self._prompt_rate
        self._generated_rate = written or self._generated_rate


def _between(before: float | None, now: float | None, seconds: float) -> float:
    return seconds if before is None or now is None else now - before


def _rate(tokens: int, seconds: float) -> float | None:
    return tokens / seconds if tokens > 0 and seconds > 0 else None
