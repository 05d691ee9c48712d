"""Servers, and what serves on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from ropewalk.core.arguments import Source, public
from ropewalk.core.planning import plan, plan_request
from ropewalk.validation import checked, require_type

if TYPE_CHECKING:
    from ropewalk.documents import ServerList
    from ropewalk.inspector.records import Inspection
    from ropewalk.planner.options import PlanOptions
    from ropewalk.planner.records import Launch, Plan, PlanRequest
    from ropewalk.serving.launcher import RunningServer
    from ropewalk.serving.live import Watch
    from ropewalk.serving.preflight import PreflightItem
    from ropewalk.serving.process.detached import DetachedServer
    from ropewalk.serving.process.engine_process import EngineProcess, LogTail
    from ropewalk.serving.process.leftovers import Leftovers
    from ropewalk.serving.service import ServeSettings, Service


@overload
def serve(
    source: Source | Inspection,
    request: PlanRequest,
    *,
    settings: ServeSettings | None = None,
    confirm: bool = False,
    say: Callable[[str], None] | None = None,
) -> Service: ...
@overload
def serve(
    source: Source | Inspection,
    *,
    settings: ServeSettings | None = None,
    confirm: bool = False,
    say: Callable[[str], None] | None = None,
    **options: Unpack[PlanOptions],
) -> Service: ...
@public
def serve(
    source: Source | Inspection,
    request: PlanRequest | None = None,
    *,
    settings: ServeSettings | None = None,
    confirm: bool = False,
    say: Callable[[str], None] | None = None,
    **options: Any,
) -> Service:
    """Plan, check beforehand, start, and wait until the server has answered; use it in a ``with`` block.

    ``options`` are those of :func:`plan`; ``settings`` say where it listens, how long it may take, and
    whether it is verified; ``say`` gets each step. On leaving the block the server and all of its
    processes are stopped, unless :meth:`Service.detach` left it running. Raises :class:`CheckpointError`,
    :class:`UsageError` (``plan_refused``, ``does_not_fit``), :class:`PreflightError` for what is known to
    fail before anything is started, and :class:`EngineError`.
    """
    from ropewalk.serving.service import ServeSettings

    require_type("settings", settings, ServeSettings | None)
    settings = settings or ServeSettings()
    inspection, request = plan_request(source, request, options)
    planned = plan(
        inspection,
        request,
        engine_path=settings.engine_path,
        confirm=confirm,
        node_addresses=settings.spread.addresses,
    )
    return start(planned, inspection, settings, say=say)


def start(
    plan: Plan,
    inspection: Inspection,
    settings: ServeSettings,
    *,
    say: Callable[[str], None] | None = None,
    on_check: Callable[[PreflightItem], None] | None = None,
    on_start: Callable[[Path], None] | None = None,
    on_log: Callable[[str], None] | None = None,
    on_fill: Callable[[int, float | None], None] | None = None,
    on_process: Callable[[EngineProcess], None] | None = None,
) -> Service:
    """Start a server that was planned; raises as :func:`serve` does.

    ``say`` gets each step that takes a while, ``on_check`` each check when it has been made, ``on_start``
    where the engine's log will be, ``on_log`` each line in it until the server has answered, ``on_fill`` how
    many tokens a verification fills and about how many seconds that takes; ``on_process`` gets the
    engine's process, which may be interrupted from then on.
    """
    from ropewalk.serving.service import start_service

    return start_service(
        plan,
        inspection,
        checked(settings),
        say=say,
        on_check=on_check,
        on_start=on_start,
        on_log=on_log,
        on_fill=on_fill,
        on_process=on_process,
    )


def launch(
    launch: Launch, *, log_path: Path, on_process: Callable[[EngineProcess], None] | None = None
) -> RunningServer:
    """Start a server from its launch record, and wait until it has answered; ``on_process`` gets its process,
    which may be interrupted from then on. Raises :class:`EngineError`."""
    from ropewalk.serving.launcher import start as start_server

    return start_server(launch, log_path=log_path, on_process=on_process)


def log_tail(path: Path) -> LogTail:
    """A log that grows, read on from where it was last read."""
    from ropewalk.serving.process.engine_process import LogTail

    return LogTail(path)


def watch(server: RunningServer) -> Watch:
    """What tells what a running server is doing, each time it is asked."""
    from ropewalk.serving.live import Watch

    return Watch(server)


def dies_with_this_process() -> Callable[[], object]:
    """What a child process calls first, so that the system kills it when this one ends (on Linux)."""
    from ropewalk.serving.process.supervisor import die_with_parent

    return die_with_parent()


def servers() -> ServerList:
    """The servers that were left running, and what a start left behind that was killed."""
    from ropewalk.documents import ServerList
    from ropewalk.serving.process.leftovers import find_leftovers

    return ServerList(running_servers(), find_leftovers())


def running_servers() -> tuple[DetachedServer, ...]:
    """The servers that were left running, the oldest first."""
    from ropewalk.serving.process.detached import detached_servers

    return detached_servers()


def find_server(wanted: str | None = None) -> DetachedServer:
    """The one of this name, port or process id; without one, the only one there is.

    Raises :class:`UsageError` where that is none or more than one.
    """
    from ropewalk.serving.process.detached import find_detached

    return find_detached(wanted)


def stop_server(server: DetachedServer) -> None:
    """Stop it and all of its processes. Raises :class:`EngineTimeoutError` where it cannot be ended."""
    from ropewalk.serving.process.detached import stop_detached

    stop_detached(server)


def clear_leftovers() -> Leftovers:
    """Clear what starts left behind that were killed; returns what that was."""
    from ropewalk.serving.process.leftovers import clear_leftovers as clear
    from ropewalk.serving.process.leftovers import find_leftovers

    found = find_leftovers()
    clear(found)
    return found
