"""A planned server from its first check to its end, in one thread that tells what it sees."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ropewalk.errors import RopewalkError

if TYPE_CHECKING:
    from ropewalk.findings import Finding
    from ropewalk.planner.records import Plan
    from ropewalk.serving.launcher import RunningServer
    from ropewalk.serving.live import Moment
    from ropewalk.serving.preflight import PreflightItem
    from ropewalk.serving.records import LaunchSpec
    from ropewalk.serving.server_report import ServerReport
    from ropewalk.tui.state import Opened

LOOK_SECONDS = 1.0
_BUNCH_SECONDS = 0.2
STOP_SECONDS = 30.0  # the launcher kills what has not ended after its own grace
_MOST_LINES = 20_000
_MOST_MOMENTS = 600

State = Literal["checking", "refused", "starting", "ready", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class Ready:
    """The server has answered."""

    url: str
    ready_seconds: float
    report: ServerReport
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class ServerView:
    """A server as it is watched; ``problem`` says why it was not started or why it ended."""

    plan: Plan
    state: State = "checking"
    checks: tuple[PreflightItem, ...] = ()
    log_path: Path | None = None
    lines: tuple[str, ...] = ()
    ready: Ready | None = None
    moments: tuple[Moment, ...] = ()
    problem: str | None = None

    def with_lines(self, lines: list[str]) -> ServerView:
        """With what the engine printed since."""
        return replace(self, lines=(*self.lines, *lines)[-_MOST_LINES:])


class Serving:
    """What it takes to serve; each method blocks."""

    def spec(self, opened: Opened, plan: Plan, *, port: int | None) -> LaunchSpec:
        """The launch of a plan by the engine that is installed. Raises :class:`RopewalkError`."""
        from ropewalk.serving.engines import launch_spec, pick_engine

        build = pick_engine(plan.request.engine)
        return launch_spec(plan, build=build, model=opened.model, port=port)

    def checks(self, opened: Opened, plan: Plan, spec: LaunchSpec) -> Iterator[PreflightItem]:
        """Every check before a start, each when it has been made."""
        from ropewalk.serving.preflight import checks

        return checks(plan, spec, opened.inspection)

    def log_path(self) -> Path:
        """Where the engine's lines go."""
        from ropewalk.serving.service import default_log_path

        return default_log_path()

    def start(self, spec: LaunchSpec, *, log_path: Path, on_log: Callable[[str], None]) -> RunningServer:
        """Start it and wait until it has answered. Raises :class:`EngineError`."""
        from ropewalk.serving.launcher import start

        return start(spec, log_path=log_path, on_log=on_log)

    def watch(self, server: RunningServer) -> Callable[[], Moment]:
        """What tells its state, each time it is called. That raises :class:`EngineFailedError`."""
        from ropewalk.serving.live import Watch

        return Watch(server).look


class ServerRun:
    """Checks, starts, watches and stops one server; ``tell`` gets the view whenever it has changed.

    :meth:`run` is called in a worker and returns when the server is gone; :meth:`stop` in any thread.
    """

    def __init__(
        self, backend: Serving, opened: Opened, plan: Plan, tell: Callable[[ServerView], None]
    ) -> None:
        self._doing, self._opened, self._tell = backend, opened, tell
        self.view = ServerView(plan)
        self._heard: list[str] = []
        self._told = time.monotonic()
        self._stopping = threading.Event()
        self._gone = threading.Event()

    def stop(self) -> None:
        """Have it stopped, and wait until it is."""
        self._stopping.set()
        self._gone.wait(STOP_SECONDS)

    def run(self, *, port: int | None, force: bool) -> None:
        """From the checks to the end."""
        try:
            spec = self._doing.spec(self._opened, self.view.plan, port=port)
            if self._check(spec) or force:
                self._serve(spec)
            else:
                self._say(state="refused", problem="a check failed; F starts in spite of it")
        except RopewalkError as error:
            self._say(state="failed", problem=error.message)
        except _StopAskedError:
            self._say(state="stopped")
        finally:
            self._gone.set()

    def _check(self, spec: LaunchSpec) -> bool:
        for item in self._doing.checks(self._opened, self.view.plan, spec):
            self._require_wanted()
            self._say(checks=(*self.view.checks, item))
        return all(item.ok is not False for item in self.view.checks)

    def _serve(self, spec: LaunchSpec) -> None:
        log_path = self._doing.log_path()
        self._say(state="starting", log_path=log_path)
        with self._doing.start(spec, log_path=log_path, on_log=self._hear) as server:
            ready = Ready(server.base_url, server.ready_seconds, server.report, server.findings)
            self._say(state="ready", ready=ready)
            self._watch(server, log_path)
        self._say(state="stopped")

    def _watch(self, server: RunningServer, log_path: Path) -> None:
        """Look at it and read on in its log until it is to be stopped."""
        from ropewalk.serving.process.log_tail import LogTail

        look, log = self._doing.watch(server), LogTail(log_path)
        log.read_new()
        while not self._stopping.wait(LOOK_SECONDS):
            self._heard = log.read_new()
            self._say(moments=(*self.view.moments, look())[-_MOST_MOMENTS:])

    def _hear(self, line: str) -> None:
        """A start can print thousands of lines: they are told in bunches."""
        self._require_wanted()
        self._heard.append(line)
        if time.monotonic() - self._told > _BUNCH_SECONDS:
            self._say()

    def _say(self, **changes: Any) -> None:
        self.view = replace(self.view.with_lines(self._heard), **changes)
        self._heard, self._told = [], time.monotonic()
        self._tell(self.view)

    def _require_wanted(self) -> None:
        if self._stopping.is_set():
            raise _StopAskedError


class _StopAskedError(Exception):
    """Nobody wants the server any more; the launcher ends what it has begun."""
