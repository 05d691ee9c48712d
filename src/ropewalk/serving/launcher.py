"""Starts a planned server, waits until it really answers, and leaves nothing behind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ropewalk.errors import EngineError, EngineFailedError, EngineTimeoutError
from ropewalk.findings import Finding
from ropewalk.planner.records import Launch
from ropewalk.serving.client import ServerClient
from ropewalk.serving.engines import adapter_of
from ropewalk.serving.engines.adapter import Adapter
from ropewalk.serving.process.engine_process import EngineProcess, LogTail
from ropewalk.serving.process.group import (
    CAUSE_SECONDS,
    RunningNode,
    arguments_of,
    lost_node,
    running_nodes,
)
from ropewalk.serving.process.members import members_of
from ropewalk.serving.process.ports import connect_host, free_port, require_free
from ropewalk.serving.records import GRACE_SECONDS
from ropewalk.serving.server_report import ServerReport

_POLL_SECONDS = 0.05
_DYING_SECONDS = 2.0  # between a failed request and the end of the process that failed it
_TAIL_LINES = 15

OnLog = Callable[[str], None]
OnProcess = Callable[[EngineProcess], None]


@dataclass(slots=True)
class RunningServer:
    """A server that has answered; leaving it as a context manager stops it and all of its processes.

    ``pid`` is the engine's own process, ``ready_seconds`` the time from its start to its first token. Of a
    group ``pid`` is the process that watches ``nodes``, those that were started from here.
    """

    launch: Launch
    base_url: str
    pid: int
    log_path: Path
    ready_seconds: float
    report: ServerReport
    client: ServerClient
    findings: tuple[Finding, ...]
    _process: EngineProcess
    _is_ours: bool = True
    nodes: tuple[RunningNode, ...] = ()
    _is_interrupted: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_ours:
            self.stop()

    def stop(self) -> None:
        """End the server; idempotent. Returns when none of its processes is left."""
        self.client.close()
        self._process.stop()

    def interrupt(self) -> None:
        """Have it end, even in the middle of a prompt: what is asked of it fails now, and its supervisor
        kills it where it does not end in time. Returns at once; for any thread."""
        self._is_interrupted = True
        self._process.interrupt()
        self.client.close()

    @property
    def supervisor_pid(self) -> int:
        """The process that watches the engine; SIGTERM to it stops both."""
        return self._process.supervisor_pid

    def detach_process(self) -> None:
        """Leave the server running when this process ends; it is not stopped at the end of ``with``."""
        self.client.close()
        self._process.detach_process()
        self._is_ours = False

    def wait(self, seconds: float) -> bool:
        """Wait at most so long for the server to end on its own; whether it did."""
        return self._process.wait(seconds)

    def require_alive(self) -> None:
        """Raise :class:`EngineFailedError` with the engine's last words if it has ended, or was told to."""
        if self._is_interrupted:
            raise EngineFailedError(f"{self.launch.found_build.name} was told to end")
        if self._process.ended():
            raise _failure(self.launch, self._process, LogTail(self.log_path), "while it served")


def start(
    launch: Launch,
    *,
    log_path: Path,
    ready_timeout: float | None = None,
    grace_seconds: float = GRACE_SECONDS,
    on_log: OnLog | None = None,
    allow_other_context: bool = False,
    launcher: str | None = None,
    on_process: OnProcess | None = None,
) -> RunningServer:
    """Start the server and return it once it has answered a request with the context that was planned.

    A ``port`` of 0 takes a free one. ``ready_timeout`` in seconds is by default what the engine may need
    for a large model; one that dies is noticed at once. ``on_log`` gets each line that the engine prints
    until then, ``on_process`` the process as soon as there is one: interrupting it ends the start too. Where
    the server reports another context than planned it is stopped again, unless
    ``allow_other_context``: then a finding says so. Of several nodes those of this machine are started, and
    the others by ``launcher`` if given; all are watched, and one that is lost ends all. Raises
    :class:`EngineError` (``port_in_use``, ``log_unwritable``, ``slot_context_capped``),
    :class:`EngineFailedError` with the engine's own reason, and :class:`EngineTimeoutError`.
    """
    launch = _with_port(launch)
    require_free(launch.port, host=launch.host)
    adapter = adapter_of(launch.engine)
    with adapter.start_argv(launch) as argv:
        began = time.monotonic()
        process = EngineProcess(
            _command(launch, argv, launcher=launcher, log_path=log_path, grace_seconds=grace_seconds),
            env=_environment(launch, adapter),
            log_path=log_path,
            grace_seconds=grace_seconds,
            command=(*adapter.program(launch.found_build), *argv),
        )
        if on_process:
            on_process(process)
        client = adapter.client(f"http://{_authority(launch)}", model=launch.model)
        deadline = began + (adapter.READY_SECONDS if ready_timeout is None else ready_timeout)
        start_up = _StartUp(launch, process, client, LogTail(log_path), deadline, on_log)
        try:
            start_up.wait_until_it_answers(adapter.served_name(argv))
            report, findings = start_up.read_report(allow_other_context=allow_other_context)
        except BaseException:  # an interrupt too: nothing may be left
            client.close()
            process.stop()
            raise
    return RunningServer(
        launch=launch,
        base_url=f"http://{_authority(launch)}",
        pid=process.pid,
        log_path=log_path,
        ready_seconds=time.monotonic() - began,
        report=report,
        client=client,
        findings=findings,
        _process=process,
        nodes=running_nodes(start_up.log.lines),
    )


@dataclass(slots=True)
class _StartUp:
    """What is waited for, one question after the other, until ``deadline`` on the monotonic clock."""

    launch: Launch
    process: EngineProcess
    client: ServerClient
    log: LogTail
    deadline: float
    on_log: OnLog | None

    def wait_until_it_answers(self, name: str) -> None:
        """Health first, then one token: an engine can be healthy and die at its first request."""
        while not self.client.healthy():
            self._tell_log()
            if self.process.wait(_POLL_SECONDS):
                raise self._failure("while it started")
            if time.monotonic() > self.deadline:
                raise self._timeout()
        names = self._answer_once(name)
        if name not in names:
            raise EngineError(
                f"{_authority(self.launch)} serves {', '.join(names)}, not {name}: another server is there",
                code="port_in_use",
                where={"port": self.launch.port, "expected": name, "served": list(names)},
            )
        if self.process.ended():
            raise self._failure("at its first request")

    def _answer_once(self, name: str) -> tuple[str, ...]:
        """Have one token generated; returns the names of the models that the server lists. On a shared
        port another server may answer: one that does not list ``name`` is not asked."""
        try:
            names = self.client.model_ids()
            if name in names:
                tokens = self.client.tokenize("Hello", add_special=True, parse_special=True)
                left = max(self.deadline - time.monotonic(), 1.0)
                self.client.complete(tokens, max_tokens=1, cache_prompt=False, timeout_seconds=left)
        except EngineError:
            if self.process.wait(_dying_seconds(self.launch)):
                raise self._failure("at its first request") from None
            raise
        return names

    def read_report(self, *, allow_other_context: bool) -> tuple[ServerReport, tuple[Finding, ...]]:
        self._tell_log()
        report = self.client.report(self.log.lines)
        finding = _context_finding(self.launch, report.context_len)
        if finding and not allow_other_context:
            raise EngineError(finding.message, code=finding.code, where=finding.where)
        return report, (finding,) if finding else ()

    def _tell_log(self) -> None:
        lines = self.log.read_new()
        if self.on_log:
            for line in lines:
                self.on_log(line)

    def _failure(self, when: str) -> EngineFailedError:
        self._tell_log()
        return _failure(self.launch, self.process, self.log, when)

    def _timeout(self) -> EngineTimeoutError:
        name = self.launch.found_build.name
        return EngineTimeoutError(
            f"{name} was not ready in time; its log ends:\n{self.log.last(_TAIL_LINES)}",
            where={"log": str(self.log.path)},
        )


def _failure(launch: Launch, process: EngineProcess, log: LogTail, when: str) -> EngineFailedError:
    """Of a group, what became of the node that was lost first, in that node's own words."""
    log.read_new()
    lost = lost_node(log.lines)
    who, how = launch.found_build.name, f"ended {process.ended()}"
    where: dict[str, object] = {"log": str(log.path)}
    if lost:
        who, how = f"node {lost.node} at {lost.address}", lost.how
        where = {"log": str(lost.log_path), "node": lost.node, "address": lost.address}
        log = LogTail(lost.log_path)
        log.read_new()
    reason = adapter_of(launch.engine).root_error(log.lines)
    said = reason or f"it gave no reason; its log ends:\n{log.last(_TAIL_LINES)}"
    return EngineFailedError(f"{who} {how} {when}: {said}", where={**where, "reason": reason})


def _dying_seconds(launch: Launch) -> float:
    """A group ends when its other nodes have, too."""
    return _DYING_SECONDS + (CAUSE_SECONDS + GRACE_SECONDS if launch.nodes else 0.0)


def _context_finding(launch: Launch, reported: int) -> Finding | None:
    """The server may round the planned length up to what was planned for, and nothing else."""
    if launch.context_len <= reported <= launch.served_context_len:
        return None
    capped = reported < launch.context_len
    return Finding(
        code="slot_context_capped" if capped else "slot_context_differs",
        severity="error",
        message=f"the server takes {reported} tokens per sequence; the plan is for {launch.context_len}",
        where={"planned": launch.context_len, "reported": reported},
    )


def _with_port(launch: Launch) -> Launch:
    if launch.port != 0:
        return launch
    port = free_port(launch.host)
    argv = _on_port(launch.argv, port)
    nodes = (*(replace(first, argv=argv) for first in launch.nodes[:1]), *launch.nodes[1:])  # one node serves
    command = adapter_of(launch.engine).command_of(argv, launch.env)
    return replace(launch, port=port, argv=argv, command=command, nodes=nodes)


def _on_port(argv: tuple[str, ...], port: int) -> tuple[str, ...]:
    at = argv.index("--port") + 1
    return (*argv[:at], str(port), *argv[at + 1 :])


def _command(
    launch: Launch, argv: tuple[str, ...], *, launcher: str | None, log_path: Path, grace_seconds: float
) -> tuple[str, ...]:
    """The engine, or the group of its nodes in its place."""
    program = adapter_of(launch.engine).program(launch.found_build)
    if not launch.nodes:
        return (*program, *argv)
    members = members_of(launch, program=program, launcher=launcher, log_path=log_path.absolute())
    return arguments_of(members, grace_seconds=grace_seconds)


_HUB_TOKENS = frozenset({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})


def _environment(launch: Launch, adapter: Adapter) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not adapter.SCRUBBED_ENVIRONMENT.match(name)}
    if os.path.exists(launch.model):  # nothing is to be fetched: the engine needs no token of the Hub
        kept = {name: value for name, value in kept.items() if name not in _HUB_TOKENS}
    return {**kept, **launch.env}


def _authority(launch: Launch) -> str:
    host = connect_host(launch.host)
    return f"[{host}]:{launch.port}" if ":" in host else f"{host}:{launch.port}"
