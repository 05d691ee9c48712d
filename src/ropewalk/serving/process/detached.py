"""Servers that were left running: one small file each, so that they can be listed and stopped later."""

from __future__ import annotations

import os
import platform
import signal
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk import jsonio
from ropewalk.errors import EngineError, EngineTimeoutError, UsageError
from ropewalk.serving.process.processes import (
    descendants,
    is_alive,
    is_of_earlier_boot,
    pid_space,
    send,
    start_time,
    wait_until,
)

if TYPE_CHECKING:
    from ropewalk.serving.launcher import RunningServer

_STOP_SECONDS = 30.0  # the supervisor kills what has not stopped after its own grace


@dataclass(frozen=True, slots=True)
class DetachedServer:
    """A server that outlives the command that started it.

    ``supervisor_pid`` and ``supervisor_start_time`` name the process that watches it for good; ``started`` is
    UTC in ISO 8601. ``nodes`` are the addresses of a group, which ends and is stopped as one. ``host`` and
    ``space`` (:func:`pid_space`) tell where its processes are: the folder of these records may be one of
    several machines or containers. Both are empty from a version that did not note them.
    """

    name: str
    base_url: str
    pid: int
    supervisor_pid: int
    supervisor_start_time: str
    command: str
    context_len: int
    log_path: str
    started: str
    nodes: tuple[str, ...] = ()
    host: str = ""
    space: str = ""
    schema: str = "ropewalk.server/1"

    @property
    def port(self) -> str:
        """The port as a person writes it."""
        return self.base_url.rpartition(":")[2]

    @property
    def is_here(self) -> bool:
        """Whether its processes can be seen, and it can be stopped, from here."""
        return self.host in ("", platform.node()) and self.space in ("", pid_space())


def servers_dir() -> Path:
    """Where the files are: the user's folder for state."""
    from platformdirs import user_state_path

    return user_state_path("ropewalk") / "servers"


def leave_running(server: RunningServer) -> DetachedServer:
    """Let go of a started server: it stays when this process ends, and can be found here."""
    record = DetachedServer(
        name=server.report.model_name,
        base_url=server.base_url,
        pid=server.pid,
        supervisor_pid=server.supervisor_pid,
        supervisor_start_time=start_time(server.supervisor_pid) or "",
        command=server.launch.command,
        context_len=server.report.context_len,
        log_path=str(server.log_path.absolute()),
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        nodes=tuple(node.address for node in server.launch.nodes),
        host=platform.node(),
        space=pid_space(),
    )
    try:
        _write(record)
    except OSError as error:  # it is stopped by who started it
        raise EngineError(
            f"{servers_dir()} cannot be written ({error.strerror}): the server could not be found again",
            code="state_unwritable", where={"file": str(servers_dir())},
        ) from error  # fmt: skip
    server.detach_process()
    return record


def detached_servers() -> tuple[DetachedServer, ...]:
    """Those that still run, and those of other machines and PID namespaces, of which that cannot be said from
    here; the oldest first. Files of servers that ended here are removed, unreadable ones are passed over."""
    found = []
    for path in servers_dir().glob("*.json"):
        record = _read(path)
        if record is None:
            continue
        if _runs(record) if record.is_here else not is_of_earlier_boot(record.host, record.space):
            found.append(record)
        elif record.space:  # without one it may be another machine's
            path.unlink(missing_ok=True)
    return tuple(sorted(found, key=lambda record: record.started))


def find_detached(wanted: str | None = None) -> DetachedServer:
    """The server of this name, port or process id; without one, the only one there is.

    Raises :class:`UsageError` where that is none or more than one.
    """
    everywhere = detached_servers()
    servers = [one for one in everywhere if one.is_here]
    if not servers:
        others = sorted({one.host for one in everywhere})
        elsewhere = f"; of {', '.join(others)} it is stopped there" if others else ""
        raise UsageError(
            f"no server was left running; `ropewalk serve --detach` leaves one{elsewhere}",
            where={"server": wanted, "elsewhere": others},
        )
    found = [one for one in servers if wanted in (None, one.name, one.port, str(one.pid))]
    if len(found) == 1:
        return found[0]
    there = ", ".join(f"{one.name} on port {one.port}" for one in servers)
    asked = f"{wanted!r} names {len(found)} of the servers" if wanted else f"{len(found)} servers"
    raise UsageError(
        f"{asked} that were left running; there are: {there}",
        where={"server": wanted, "running": [one.name for one in servers]},
    )


def stop_detached(server: DetachedServer) -> None:
    """Stop it and all of its processes. Raises :class:`EngineTimeoutError` where it cannot be ended, and
    :class:`UsageError` where it is not of this machine or PID namespace."""
    if not server.is_here:
        raise UsageError(
            f"{server.name} runs on {server.host} or in another container of it; stop it there",
            code="server_elsewhere",
            where={"server": server.name, "host": server.host},
        )
    if _runs(server):
        send([server.supervisor_pid], signal.SIGTERM)
        if not _gone(server):
            send([*descendants(server.supervisor_pid), server.supervisor_pid], signal.SIGKILL)
            if not _gone(server):
                raise EngineTimeoutError(
                    f"process {server.supervisor_pid} does not end", where={"pid": server.supervisor_pid}
                )
    _path(server).unlink(missing_ok=True)


def _gone(server: DetachedServer) -> bool:
    return wait_until(lambda: not _runs(server), _STOP_SECONDS)


def _runs(server: DetachedServer) -> bool:
    """Whether its supervisor does: the id alone could be another process's by now."""
    return (
        is_alive(server.supervisor_pid) and start_time(server.supervisor_pid) == server.supervisor_start_time
    )


def _read(path: Path) -> DetachedServer | None:
    try:
        return jsonio.loads(DetachedServer, path.read_bytes())
    except (OSError, ValueError):  # gone meanwhile, or cut short
        return None


def _write(server: DetachedServer) -> None:
    """Whole or not at all: others read the folder at any time."""
    path = _path(server)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
        file.write(jsonio.dumps(server))
    os.replace(file.name, path)


def _path(server: DetachedServer) -> Path:
    """Process ids are of a space: several machines may use the folder."""
    space = f"-{server.space}" if server.space else ""
    return servers_dir() / f"{server.supervisor_pid}{space}.json"
