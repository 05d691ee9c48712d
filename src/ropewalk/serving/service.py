"""A plan becomes a running service: checked beforehand, started, verified if asked, watched, stopped."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ropewalk.errors import EngineError, NegativePlanError, UsageError
from ropewalk.findings import Finding, by_severity
from ropewalk.inspector.records import Inspection
from ropewalk.planner.parallel import replica_sequences
from ropewalk.planner.records import Launch, Plan
from ropewalk.serving.engines import launch_of, pick_engine
from ropewalk.serving.launcher import OnProcess, RunningServer, start
from ropewalk.serving.observed_shares import share_findings
from ropewalk.serving.preflight import PreflightItem, preflight, require_passed
from ropewalk.serving.process.detached import DetachedServer, leave_running
from ropewalk.serving.process.leftovers import find_leftovers
from ropewalk.serving.process.members import by_hand
from ropewalk.serving.records import SINGLE_NODE, Topology
from ropewalk.serving.server_report import ServerReport
from ropewalk.serving.verify import NOT_VERIFIED, OnFill, Verification, ask_unscaled, printed_scaling, verify

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """How a planned server is started; None takes the engine's own port, or a log in the user's folder.

    A ``port`` of 0 takes a free one. ``verify`` fills the context and asks an unscaled baseline, see
    :mod:`ropewalk.serving.verify`. ``force`` starts in spite of a failed check. ``spread`` says where the
    nodes of a plan for several machines are.
    """

    host: str = "127.0.0.1"
    port: int | None = None
    threads: int | None = None
    engine_path: str | None = None
    log_path: Path | None = None
    ready_timeout: float | None = None
    verify: bool = False
    force: bool = False
    spread: Topology = SINGLE_NODE


@dataclass(frozen=True, slots=True)
class Service:
    """A planned server that runs, with what was checked before and what was seen since.

    ``findings`` are those of the plan, of the start and of the verification, errors first.
    """

    plan: Plan
    checks: tuple[PreflightItem, ...]
    server: RunningServer
    verification: Verification
    findings: tuple[Finding, ...]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.__exit__(kind, error, trace)

    @property
    def openai_url(self) -> str:
        """The base that OpenAI's clients take."""
        return f"{self.server.base_url}/v1"

    def detach(self) -> DetachedServer:
        """Leave it running: it is not stopped at the end of ``with``, and can be found and stopped later."""
        return leave_running(self.server)

    def stop(self) -> None:
        """End it with all of its processes."""
        self.server.stop()


def start_service(
    plan: Plan,
    inspection: Inspection,
    settings: ServeSettings,
    *,
    say: Say | None = None,
    on_check: Callable[[PreflightItem], None] | None = None,
    on_start: Callable[[Path], None] | None = None,
    on_log: Say | None = None,
    on_fill: OnFill | None = None,
    on_process: OnProcess | None = None,
) -> Service:
    """Check, start and, if asked, verify.

    ``say`` gets each step that takes a while, ``on_check`` each check when it has been made, ``on_start``
    where the engine's log will be, ``on_log`` each line in it until the server has answered, ``on_fill`` how
    many tokens a verification fills and about how many seconds that takes; ``on_process`` gets the
    engine's process, which may be interrupted from then on.

    Raises :class:`UsageError` for a plan that must not be started, :class:`PreflightError` for one that is
    known to fail, :class:`EngineError` for one that failed. Nothing is left running then.
    """
    say = say or _ignore
    require_positive(plan)
    for line in find_leftovers().lines:
        say(line)
    build = pick_engine(plan.request.engine, path=settings.engine_path)
    spread = settings.spread
    launch = launch_of(
        plan,
        build=build,
        host=settings.host,
        port=settings.port,
        threads=settings.threads,
        spread=spread,
    )
    _require_addresses(launch, spread)
    made = []
    for item in preflight(plan, launch, inspection, spread=spread):
        made.append(item)
        (on_check or _ignore)(item)
    if not settings.force:
        require_passed(made)
    log_path = settings.log_path or default_log_path()
    unscaled = None
    if settings.verify and plan.rope.decision == "scale" and not launch.nodes:
        say("verifying: the model is asked without scaling first, in a short context")
        unscaled = ask_unscaled(plan, inspection, launch, threads=settings.threads, log_path=log_path)
    say(f"starting {build.name} {build.version or ''}; its log: {log_path}")
    for node in by_hand(launch, spread.launcher):
        say(f"on {node.address}: {node.command}")
    (on_start or _ignore)(log_path)
    server = start(
        launch,
        log_path=log_path,
        ready_timeout=settings.ready_timeout,
        launcher=spread.launcher,
        on_log=on_log,
        on_process=on_process,
    )
    try:
        require_room(plan, server.report)
        seen = NOT_VERIFIED
        if settings.verify:
            say(f"verifying: the whole context of {plan.context_len:,} tokens is filled once")
            seen = verify(server, plan, unscaled=unscaled, on_fill=on_fill)
    except BaseException:  # an interrupt too: nothing may be left
        server.stop()
        raise
    told = printed_scaling(plan, server.report)
    shares = share_findings(plan, server.report) if plan.request.rpc_servers else ()
    findings = (*plan.findings, *server.findings, *told, *shares, *seen.findings)
    return Service(plan, tuple(made), server, seen, by_severity(findings))


def require_room(plan: Plan, report: ServerReport) -> None:
    """Raise :class:`EngineError` where the pool that was taken does not hold what the plan promises: requests
    would wait for each other, or be thrown out and computed again."""
    asked, held = replica_sequences(plan.request, plan.request.num_sequences), report.max_concurrency
    # Printed with two decimals where the metrics do not tell.
    if held is None or held >= asked - 0.005:
        return
    raise EngineError(
        f"the server holds {held:.2f} requests of {plan.context_len:,} tokens at once, not the {asked} that "
        "are planned: it was stopped",
        code="pool_too_small",
        where={"max_concurrency": held, "num_sequences": asked, "context_len": plan.context_len},
    )


def _ignore(told: object) -> None:
    """Nobody listens."""


def _require_addresses(launch: Launch, spread: Topology) -> None:
    if launch.nodes and not spread.addresses:
        raise UsageError(
            f"{len(launch.nodes)} nodes are planned: say where with --node-addresses, this machine's first",
            where={"flag": "--node-addresses", "nodes": len(launch.nodes)},
        )


def default_log_path() -> Path:
    """A file of its own for each start, in the user's folder for logs."""
    from platformdirs import user_log_path

    return user_log_path("ropewalk") / f"serve-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"


def require_positive(plan: Plan) -> None:
    """Raise :class:`NegativePlanError` for a plan that is refused, does not fit, or has another error; the
    errors of the checkpoint itself may be allowed."""
    if plan.rope.decision == "refuse":
        raise NegativePlanError(
            plan.rope.reason, code="plan_refused", where={"context_len": plan.context_len}
        )
    require_allowed(plan)
    for finding in plan.findings:
        if finding.severity == "error" and finding not in plan.broken:
            raise NegativePlanError(finding.message, code=finding.code, where=finding.where)


def require_fit(plan: Plan) -> None:
    """Raise :class:`NegativePlanError` for a plan that might be served and does not fit."""
    for finding in plan.findings:
        if finding.code == "does_not_fit" and plan.rope.decision != "refuse":
            raise NegativePlanError(finding.message, code=finding.code, where=finding.where)


def require_allowed(plan: Plan) -> None:
    """Raise :class:`NegativePlanError` for errors of the checkpoint that were not allowed."""
    if plan.broken and not plan.request.allow_broken:
        first = plan.broken[0]
        raise NegativePlanError(
            first.message,
            code=first.code,
            where={**first.where, "hint": "--allow-broken goes on in spite of it"},
        )
