"""A planned server from its first check to its end, in one thread that tells what it sees."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ropewalk import core
from ropewalk.errors import RopewalkError
from ropewalk.serving.preflight import PreflightError
from ropewalk.serving.service import ServeSettings
from ropewalk.tui.control import STOP_SECONDS, Interruptible

if TYPE_CHECKING:
    from ropewalk.planner.records import Plan
    from ropewalk.serving.launcher import RunningServer
    from ropewalk.serving.live import Moment
    from ropewalk.serving.preflight import PreflightItem
    from ropewalk.serving.service import Service
    from ropewalk.tui.state import Opened

LOOK_SECONDS = 1.0
_BUNCH_SECONDS = 0.2

_MAX_LINES = 20_000
# As vLLM and llama-server log the questions of a watcher.
_POLL = re.compile(r"GET /(?:health|metrics|slots|props)\b.* 200|GET /(?:health|metrics|slots|props) 127\.")
_MAX_MOMENTS = 600

ServerState = Literal["checking", "refused", "starting", "ready", "stopping", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class ServerView:
    """A server as it is watched; ``problem`` says why it was not started or why it ended."""

    plan: Plan
    state: ServerState = "checking"
    checks: tuple[PreflightItem, ...] = ()
    log_path: Path | None = None
    lines: tuple[str, ...] = ()
    service: Service | None = None
    moments: tuple[Moment, ...] = ()
    problem: str | None = None

    def with_lines(self, lines: list[str]) -> ServerView:
        """With what the engine printed since, but for what only asks how it is."""
        kept = [line for line in lines if not _POLL.search(line)]
        return replace(self, lines=(*self.lines, *kept)[-_MAX_LINES:]) if kept else self


class Serving:
    """What it takes to serve; each method blocks."""

    def start(
        self,
        opened: Opened,
        plan: Plan,
        settings: ServeSettings,
        *,
        on_check: Callable[[PreflightItem], None],
        on_start: Callable[[Path], None],
        on_log: Callable[[str], None],
        on_process: Callable[[Interruptible], None],
    ) -> Service:
        """Check, start, and wait until the server has answered. Raises :class:`RopewalkError`."""
        return core.start(
            plan,
            opened.inspection,
            settings,
            on_check=on_check,
            on_start=on_start,
            on_log=on_log,
            on_process=on_process,
        )

    def watch(self, server: RunningServer) -> Callable[[], Moment]:
        """What tells its state, each time it is called. That raises :class:`EngineFailedError`."""
        return core.watch(server).look


class ServerRun:
    """Checks, starts, watches and stops one server; ``tell`` gets the view whenever it has changed.

    :meth:`run` is called in a worker and returns when the server is gone; :meth:`stop` in any thread.
    """

    def __init__(
        self, backend: Serving, opened: Opened, plan: Plan, tell: Callable[[ServerView], None]
    ) -> None:
        self._backend, self._opened, self._tell = backend, opened, tell
        self.view = ServerView(plan)
        self._heard: list[str] = []
        self._told = time.monotonic()
        self._stopping = threading.Event()
        self._gone = threading.Event()
        self._lock = threading.Lock()
        self._engine: Interruptible | None = None

    def stop(self) -> None:
        """Have it stopped, even while it starts or answers, and wait until it is."""
        self._stopping.set()
        if not self._gone.is_set():
            self._say(state="stopping")
        engine = self._engine
        if engine is not None:
            engine.interrupt()
        self._gone.wait(STOP_SECONDS)

    def run(self, *, port: int | None, force: bool) -> None:
        """From the checks to the end."""
        settings = ServeSettings(port=port, force=force)
        try:
            with self._backend.start(
                self._opened,
                self.view.plan,
                settings,
                on_check=self._checked,
                on_start=lambda path: self._say(state="starting", log_path=path),
                on_log=self._hear,
                on_process=self._take,
            ) as service:
                self._take(service.server)
                self._require_wanted()
                self._say(state="ready", service=service)
                self._watch(service.server)
            self._end(state="stopped")
        except PreflightError:
            self._end(state="refused", problem="a check failed; F starts in spite of it")
        except RopewalkError as error:
            self._end(state="failed", problem=error.message)
        except _StopAskedError:
            self._end(state="stopped")
        finally:
            self._gone.set()

    def _end(self, **changes: Any) -> None:
        """The last that is said; what fails because it was to stop has stopped."""
        if self._stopping.is_set():
            changes = {"state": "stopped"}
        self._gone.set()
        self._say(**changes)

    def _take(self, engine: Interruptible) -> None:
        """What :meth:`stop` interrupts from here on; at once where it was called before."""
        self._engine = engine
        if self._stopping.is_set():
            engine.interrupt()

    def _checked(self, item: PreflightItem) -> None:
        self._require_wanted()
        self._say(checks=(*self.view.checks, item))

    def _watch(self, server: RunningServer) -> None:
        """Look at it and read on in its log until it is to be stopped."""
        look, log = self._backend.watch(server), core.log_tail(server.log_path)
        log.read_new()
        while not self._stopping.wait(LOOK_SECONDS):
            self._heard = log.read_new()
            self._say(moments=(*self.view.moments, look())[-_MAX_MOMENTS:])

    def _hear(self, line: str) -> None:
        """A start can print thousands of lines: they are told in bunches."""
        self._require_wanted()
        self._heard.append(line)
        if time.monotonic() - self._told > _BUNCH_SECONDS:
            self._say()

    def _say(self, **changes: Any) -> None:
        """In the thread of the run and in that of who stops it; a server that is to stop only stops."""
        with self._lock:
            if self._stopping.is_set() and not self._gone.is_set():
                changes |= {"state": "stopping"}
            self.view = replace(self.view.with_lines(self._heard), **changes)
            self._heard, self._told = [], time.monotonic()
            self._tell(self.view)

    def _require_wanted(self) -> None:
        if self._stopping.is_set():
            raise _StopAskedError


class _StopAskedError(Exception):
    """Nobody wants the server any more; the launcher ends what it has begun."""
