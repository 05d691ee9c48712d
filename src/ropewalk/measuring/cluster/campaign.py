"""A run whose arms are measured as tasks elsewhere; stored, told and compared as one measured here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ropewalk import jsonio
from ropewalk.engines import EngineBuild, EngineName
from ropewalk.errors import EngineMissingError, UsageError
from ropewalk.findings import Finding
from ropewalk.inspector.records import Inspection
from ropewalk.measuring import events
from ropewalk.measuring.arms import Arm
from ropewalk.measuring.cluster.backend import Backend, Ended
from ropewalk.measuring.cluster.backends import open_backend
from ropewalk.measuring.cluster.settings import CampaignSettings, Needs
from ropewalk.measuring.cluster.tasks import Task, TaskRecord, task_of
from ropewalk.measuring.measure import Begun, begin, by_arm, utc_now
from ropewalk.measuring.records import ArmResult, Measurement, NodeSeen, RunStatus, Trial
from ropewalk.measuring.schedule import open_steps
from ropewalk.measuring.session import OnEvent, Session
from ropewalk.measuring.settings import MeasureSettings
from ropewalk.measuring.store import RunStore
from ropewalk.planner.options import ServerOptions
from ropewalk.planner.pace import pace_of
from ropewalk.serving.engines import pick_engine
from ropewalk.serving.host.devices import find_devices
from ropewalk.serving.host.probe import Host

OpenBackend = Callable[..., Backend]


def run_campaign(
    inspection: Inspection,
    *,
    model: str,
    build: EngineBuild,
    context_len: int,
    arms: Sequence[str],
    settings: MeasureSettings,
    campaign: CampaignSettings,
    store: RunStore,
    engine_path: str | None = None,
    on_event: OnEvent | None = None,
    resume: str | None = None,
    open_backend: OpenBackend = open_backend,
) -> Measurement:
    """Measure each arm as a task of its own on the machines that ``campaign`` names.

    As :func:`ropewalk.measuring.measure.run_measurement`, with the same prompts and the same ``resume``:
    arms that are complete are not asked again. A task's trials are stored when it comes back. ``build`` is
    the engine to plan for, each node uses the one it has (at ``engine_path``). A lost worker or node is
    retried; whatever a task itself resolves to is a result. Ctrl-C cancels the tasks. Raises
    :class:`UsageError` for what no task can be made of, :class:`EngineError` for a cluster that is not
    there or goes away; the run can then be resumed.
    """
    _require_grid(settings)
    if campaign.shares_cpus and settings.threads is None:
        settings = replace(settings, threads=1)
    with open_backend(campaign, folder=store.path.parent / "tasks") as backend:
        begun = begin(
            inspection,
            model=model,
            here=Host(build, find_devices(), is_elsewhere=True),
            context_len=context_len,
            arms=arms,
            settings=settings,
            store=store,
            resume=resume,
        )
        _require_grid(begun.settings)
        needs = _needs(begun.settings, campaign)
        session = _session(begun, inspection, model, build, store, on_event or _ignore)
        run = Campaign(session, backend, needs, retries=campaign.retries, engine_path=engine_path)
        measurement = run.measure()
    session.emit(events.RunEnded(measurement))
    return measurement


class Campaign:
    """The tasks of one session, until the last of them has come back or was given up."""

    def __init__(
        self, session: Session, backend: Backend, needs: Needs, *, retries: int, engine_path: str | None
    ) -> None:
        self.session = session
        self.backend = backend
        self.needs = needs
        self.retries = retries
        self.arms = {arm.name: arm for arm in session.arms}
        self.open = {task.key: task for task in self._tasks(engine_path)}
        self.num_tasks = len(self.open)

    def measure(self) -> Measurement:
        """Hand out what is open and take back what comes; the store knows how it ended."""
        session = self.session
        session.note(status="running", finished=None)
        session.emit(events.RunStarted(session.run_id, tuple(self.arms)))
        session.tell_grid()
        status: RunStatus = "failed"
        try:
            session.emit(events.CampaignStarted(self.backend.describe(), self.num_tasks))
            self._submit(*self.open.values())
            while self.open:
                self._take(self.backend.next())
            seen = (*session.trials.values(), *session.losses.values())
            status = "finished" if any(seen) else "failed"
        except KeyboardInterrupt:
            status = "interrupted"
        finally:
            session.note(
                *self._remarks(), status=status, finished=utc_now() if status == "finished" else None
            )
        return session.store.load(session.run_id)

    def _tasks(self, engine_path: str | None) -> list[Task]:
        """One for each arm of which something is still to be asked."""
        session = self.session
        tasks = []
        for arm in session.arms:
            lengths, trials = session.lengths_of(arm), session.trials[arm.name]
            if next(open_steps(session.settings, lengths, trials), None) is None and session.is_read(arm):
                continue
            tasks.append(
                task_of(
                    session.frame,
                    arm.name,
                    settings=session.settings,
                    lengths=lengths,
                    trials=trials,
                    losses=session.losses[arm.name],
                    model=session.model,
                    build=session.build,
                    engine_path=engine_path,
                    whole_node=self.needs.whole_node,
                )
            )
        return tasks

    def _submit(self, *tasks: Task) -> None:
        if tasks:
            self.backend.submit({task.key: jsonio.dumps(task, indent=None) for task in tasks}, self.needs)

    def _take(self, ended: Ended) -> None:
        """Keep the result of a task, or hand it out again where that was the machine's fault."""
        task = self.open.pop(ended.key)
        record = jsonio.loads(TaskRecord, ended.record) if ended.record else None
        lost = ended.lost or (record.fault if record else None)
        is_tried_again = lost is not None and task.attempt <= self.retries
        node = record.node if record else None
        self._tell(task, node, lost, is_over=not is_tried_again)
        if is_tried_again:
            self.open[task.key] = again = replace(task, attempt=task.attempt + 1)
            self._submit(again)
        elif record and record.result:
            self._keep(task, record, record.result)
        else:
            known = record.finding if record else None
            self._keep_failure(task, known or _failure(task, lost, ended.failed or ""), node)

    def _tell(self, task: Task, node: NodeSeen | None, lost: str | None, *, is_over: bool) -> None:
        num_ended = self.num_tasks - len(self.open) - (not is_over)
        self.session.emit(
            events.TaskEnded(
                task.arm,
                self.arms[task.arm].label,
                task.attempt,
                node.name if node else None,
                lost,
                num_ended,
                self.num_tasks,
            )
        )

    def _keep(self, task: Task, record: TaskRecord, result: ArmResult) -> None:
        """Into the store and told, as if it had just been measured here."""
        session = self.session
        log = session.store.log_path(session.run_id, task.arm)
        findings = tuple(_with_log(finding, log) for finding in result.findings)
        if record.log:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(record.log, "utf-8")
        result = replace(result, findings=findings, node=record.node)
        session.emit(events.ArmStarted(task.arm, result.label, result.context_planned))
        if result.ready_seconds is not None and result.context_reported is not None:
            session.emit(events.ArmReady(task.arm, result.ready_seconds, result.context_reported))
        session.save(result)
        session.note(machine=record.node.machine)
        known = {trial.key for trial in task.trials}
        for trial in record.trials:
            if trial.key not in known:
                session.add(trial if record.node.whole else _untimed(trial))
        self._keep_losses(task, record)
        session.end(result)

    def _keep_losses(self, task: Task, record: TaskRecord) -> None:
        session = self.session
        if record.texts:
            session.note_texts(record.texts)
        known = {span.key for span in task.losses}
        for span in record.losses:
            if span.key not in known:
                session.add_losses(span if record.node.whole else replace(span, evaluated=None, seconds=None))

    def _keep_failure(self, task: Task, finding: Finding, node: NodeSeen | None) -> None:
        """An arm of which there is nothing to keep but why."""
        arm = self.arms[task.arm]
        result = replace(_planned(arm), findings=(*arm.plan.findings, finding), node=node)
        self.session.save(result)
        self.session.end(result)

    def _remarks(self) -> list[Finding]:
        """What a reader must know of the nodes; once, however often the run is resumed."""
        session = self.session
        measured = [arm for arm in session.store.load(session.run_id).arms if arm.node]
        known = {finding.code for finding in session.frame.findings}
        return [finding for finding in node_findings(measured) if finding.code not in known]


def node_findings(arms: Sequence[ArmResult]) -> tuple[Finding, ...]:
    """What sets apart arms that were measured on different nodes, or on shared ones."""
    nodes = {arm.arm: arm.node for arm in arms if arm.node and arm.node.engine}
    findings = []
    kinds = {_kind(node) for node in nodes.values()}
    if len(kinds) > 1:
        where = {arm: {"node": node.name, "kind": _kind(node)} for arm, node in nodes.items()}
        message = "the arms were measured by unlike machines or engines: their speeds do not compare"
        findings.append(Finding("nodes_differ", "warning", message, where))
    shared = [arm for arm, node in nodes.items() if not node.whole]
    if shared:
        message = "tasks may have shared their nodes, so no speed is shown; --whole-nodes gives each its own"
        findings.append(Finding("speed_left_out", "info", message, {"arms": shared}))
    return tuple(findings)


def planned_build(engine: EngineName, options: ServerOptions, *, engine_path: str | None) -> EngineBuild:
    """The engine to plan for on a machine that only hands out tasks: its own, else one by name alone."""
    if engine_path is None:
        try:
            return pick_engine(engine)
        except EngineMissingError:
            pass
    return EngineBuild(engine, engine, options.get("engine_version"), engine_path or engine)


def _needs(settings: MeasureSettings, campaign: CampaignSettings) -> Needs:
    devices = settings.plan.get("tensor_parallel", 1) * settings.plan.get("pipeline_parallel", 1)
    if 0 < campaign.per_task_gpus < devices:
        raise UsageError(
            f"a task has {campaign.per_task_gpus} GPUs, its server is planned for {devices}",
            where={"flag": "--per-task-gpus", "given": campaign.per_task_gpus, "planned": devices},
        )
    return Needs(settings.threads or 1, campaign.per_task_gpus, campaign.has_whole_nodes)


def _require_grid(settings: MeasureSettings) -> None:
    if settings.minutes is not None:
        raise UsageError(
            "a time budget is spent by the pace of one machine: for a campaign give lengths and trials",
            where={"field": "minutes", "value": settings.minutes},
        )


def _session(
    begun: Begun, inspection: Inspection, model: str, build: EngineBuild, store: RunStore, emit: OnEvent
) -> Session:
    first = begun.arms[0].plan
    return Session(
        frame=begun.frame,
        settings=begun.settings,
        inspection=inspection,
        model=str(Path(model).resolve()) if Path(model).exists() else model,
        build=build,
        arms=begun.arms,
        store=store,
        emit=emit,
        pace=pace_of(first.compute, context_len=first.context_len),
        trials=by_arm(begun.arms, store.trials(begun.frame.run_id)),
        losses=by_arm(begun.arms, store.losses(begun.frame.run_id)),
    )


def _planned(arm: Arm) -> ArmResult:
    """An arm of which nothing was seen."""
    return ArmResult(arm.name, arm.label, None, arm.plan.rope, arm.plan.context_len, None, None)


def _untimed(trial: Trial) -> Trial:
    return replace(trial, prefill_seconds=None, decode_tokens_per_second=None)


def _with_log(finding: Finding, log: Path) -> Finding:
    """The log is kept here, not where the node had it."""
    return replace(finding, where={**finding.where, "log": str(log)}) if "log" in finding.where else finding


def _kind(node: NodeSeen) -> tuple[Any, ...]:
    engine = node.engine
    return (
        node.machine.cpu,
        node.machine.cores,
        node.machine.devices,
        engine and (engine.name, engine.version),
    )


def _failure(task: Task, lost: str | None, said: str) -> Finding:
    """Why there is no record; Python says in the last line what went wrong."""
    if lost is not None:
        message = f"given up after {task.attempt} {'attempt' if task.attempt == 1 else 'attempts'}: {lost}"
        return Finding("task_lost", "error", message, {"arm": task.arm})
    last_line = said.strip().rpartition("\n")[2]
    message = f"the task could not be run: {last_line}"
    return Finding("task_crashed", "error", message, {"arm": task.arm, "said": said})


def _ignore(event: events.Event) -> None:
    """Nobody listens."""
