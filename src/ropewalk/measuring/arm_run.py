"""One arm from the start of its server to its end: memory at named moments, and the grid of questions."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from ropewalk.errors import EngineError, UsageError
from ropewalk.findings import Finding, Severity
from ropewalk.measuring.arms import Arm
from ropewalk.measuring.events import ArmReady, ArmStarted, Estimated, MemoryMarked, PromptSent
from ropewalk.measuring.loss.reader import Readable
from ropewalk.measuring.loss_run import LossRun
from ropewalk.measuring.observed_memory import Seen, downsample, memory_terms
from ropewalk.measuring.recall.prompt import Builder, Prompt, longest_prompt
from ropewalk.measuring.recall.recall_runner import Answering, RecallRunner
from ropewalk.measuring.recall.tasks import find_task
from ropewalk.measuring.recall.vocabulary import Vocabulary, make_frame
from ropewalk.measuring.records import ArmResult
from ropewalk.measuring.schedule import Step, depths_of, open_steps
from ropewalk.measuring.session import Session
from ropewalk.measuring.settings import within_minutes
from ropewalk.planner.plan import prompt_work
from ropewalk.planner.records import Launch
from ropewalk.serving.engines import launch_of
from ropewalk.serving.host.process_memory import MemorySample, MemorySampler, mappings
from ropewalk.serving.server_report import ServerReport

UBATCH = 512  # llama.cpp b11434, common/common.h n_ubatch: what is evaluated at once


class Client(Answering, Readable, Protocol):
    """The part of :class:`ropewalk.serving.client.ServerClient` that is measured."""


class MeasuredServer(Protocol):
    """A started server as far as it is measured: :class:`ropewalk.serving.launcher.RunningServer`."""

    @property
    def pid(self) -> int: ...

    @property
    def ready_seconds(self) -> float: ...

    @property
    def report(self) -> ServerReport: ...

    @property
    def client(self) -> Client: ...

    @property
    def findings(self) -> tuple[Finding, ...]: ...

    def require_alive(self) -> None: ...


_THINKING = {
    "off": "asked without thinking, by the switch of its chat template (enable_thinking false)",
    "closed": "asked without thinking: its chat template begins a thought, which the prompt ends at once",
}
StartServer = Callable[[Launch, Path], AbstractContextManager[MeasuredServer]]  # leaving it stops the server


class ArmRun:
    """One arm of a session; ``result`` grows as it is measured, and is stored as it grows."""

    def __init__(self, session: Session, arm: Arm) -> None:
        self.session = session
        self.arm = arm
        self.result = ArmResult(
            arm=arm.name,
            label=arm.label,
            launch=None,
            rope=arm.plan.rope,
            context_planned=arm.plan.context_len,
            context_reported=None,
            ready_seconds=None,
            findings=arm.plan.findings,
        )

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to ask or to read; known only once the grid is."""
        session = self.session
        return session.settings.minutes is None and self._next_step() is None and session.is_read(self.arm)

    def measure(self, start: StartServer, log_path: Path) -> None:
        """Start the server, ask what is open, stop it.

        An engine that fails, or a plan that refuses, ends the arm with a finding and not the run. Raises
        :class:`UsageError` where the prompts cannot be made.
        """
        session, plan = self.session, self.arm.plan
        session.emit(ArmStarted(self.arm.name, self.arm.label, plan.context_len))
        if plan.rope.decision == "refuse":
            self._tell("arm_refused", "error", f"{self.arm.label} cannot be served: {plan.rope.reason}")
            session.end(self.result)
            return
        launch = launch_of(
            plan, build=session.build, model=session.model, port=0, threads=session.settings.threads
        )
        self._note(launch=replace(launch, build=None, confirmed_by="engine"))
        try:
            with start(launch, log_path) as server, MemorySampler(server.pid) as sampler:
                try:
                    self._examine(server, sampler)
                finally:
                    self._note(samples=downsample(sampler.samples))
        except EngineError as error:
            self._tell("arm_failed", "error", f"{self.arm.label} failed: {error.message}", log=str(log_path))
        session.end(self.result)

    def _examine(self, server: MeasuredServer, sampler: MemorySampler) -> None:
        report = server.report
        findings = (*self.result.findings, *server.findings)
        self._note(context_reported=report.context_len, ready_seconds=server.ready_seconds, findings=findings)
        self.session.emit(ArmReady(self.arm.name, server.ready_seconds, report.context_len))
        exam = self._exam(server)
        losses = self._losses(exam, server)
        seen = Seen(mappings(server.pid), self._mark("loaded", sampler), None)
        self._fill_ubatch(exam)
        self._note_memory(report, replace(seen, longest=self._mark("ubatch", sampler)))
        self._fix_grid()
        self.session.emit(Estimated(self.session.progress()))
        lengths = self.session.lengths_of(self.arm)
        self._note(work=prompt_work(self.session.inspection, self.arm.plan.request, lengths))
        while step := self._next_step():
            self._ask(step, exam, server, is_cached=losses.before(step))
        losses.rest()
        self._note_memory(report, replace(seen, longest=self._mark("longest", sampler)))

    def _exam(self, server: MeasuredServer) -> RecallRunner:
        session, plan = self.session, self.arm.plan
        vocabulary = Vocabulary(server.client, session.memo)
        frame = make_frame(server.client, session.settings.form)
        identity = {
            "model": session.frame.checkpoint_fingerprint,
            "engine": [session.build.name, session.build.version],
            "rope": [plan.rope.decision, plan.rope.type, plan.rope.factor, plan.override_context_len],
            "cache": [plan.request.cache_type_k, plan.request.cache_type_v],
            "context_len": server.report.context_len,
            "answer_tokens": session.settings.answer_tokens,
        }
        builder = Builder(vocabulary, frame, session.settings.haystack)
        exam = RecallRunner(self.arm.name, server.client, builder, server.report.context_len, identity)
        self._require_same(exam)
        if vocabulary.doubles_start(frame.before):
            what = (
                f"{self.arm.label}: its chat template begins with the start token that the tokenizer adds "
                "too. It is sent once here; a rendered prompt sent as text has it twice, which costs recall"
            )
            self._tell("doubled_bos", "warning", what)
        if frame.form != session.settings.form:
            what = f"{self.arm.label} is asked in plain text: its server shows no chat template"
            self._tell("asked_in_plain_text", "info", what, form=frame.form)
        if frame.thinking in _THINKING:
            self._tell("thinking_off", "info", f"{self.arm.label}: {_THINKING[frame.thinking]}")
        return exam

    def _losses(self, exam: RecallRunner, server: MeasuredServer) -> LossRun:
        """The texts before this server. Raises :class:`UsageError` where a resumed run's have changed."""
        session = self.session
        losses = LossRun(session, self.arm, exam, server.client)
        losses.require_same()
        if session.settings.reads and session.reading is None:
            what = f"{self.arm.label}: its server shows no probabilities, so no losses are read"
            self._tell("no_probabilities", "warning", what)
        return losses

    def _require_same(self, exam: RecallRunner) -> None:
        """A resumed arm must go on as it began: same engine, weights, template."""
        for trial in self.session.trials[self.arm.name]:
            task = find_task(trial.task)
            if trial.key != exam.key(task, length=trial.length, depth=trial.depth, seed=trial.seed):
                raise UsageError(
                    f"run {self.session.run_id} cannot go on: the engine, weights or template of "
                    f"{self.arm.label} have changed; begin a new one",
                    code="run_not_resumable",
                    where={"run": self.session.run_id, "arm": self.arm.name},
                )

    def _fill_ubatch(self, exam: RecallRunner) -> None:
        """Evaluate one full batch: afterwards the compute buffers are resident, and a pace is known."""
        settings = self.session.settings
        task = find_task(settings.tasks[0])
        first = exam.builder.prompts(
            task, length=self.session.lengths[0], depths=depths_of(task, settings), seed=settings.seed
        )[0]
        tokens = first.tokens[: min(UBATCH, longest_prompt(exam.context_len, answer_tokens=1))]
        began = time.monotonic()
        exam.client.complete(tokens, max_tokens=1, cache_prompt=False)
        self.session.pace.seen(0, len(tokens), time.monotonic() - began)

    def _fix_grid(self) -> None:
        """The pace of the first arm decides what a time budget allows; the others are asked the same."""
        session = self.session
        if session.settings.minutes is None:
            return
        chosen = within_minutes(
            session.settings, session.asked, session.pace, reading=session.reading_seconds
        )
        message = f"lengths and trials were chosen for about {session.settings.minutes:g} minutes"
        left_out = sorted(set(session.lengths) - set(chosen.lengths or ()))
        where = {"minutes": session.settings.minutes, "lengths_left_out": left_out}
        session.fix(chosen, Finding("grid_chosen", "warning" if left_out else "info", message, where))

    def _ask(self, step: Step, exam: RecallRunner, server: MeasuredServer, *, is_cached: bool) -> None:
        """What is open of one haystack; the first question is evaluated whole, unless its haystack is in the
        server's cache, the others reuse it."""
        settings = self.session.settings
        is_fresh, is_refused = not is_cached, False
        for prompt in self._prompts(step, exam):
            if is_refused:
                self.session.add(exam.skip(prompt, task=step.task, seed=step.seed))
                continue
            self._announce(step, prompt, is_fresh=is_fresh)
            began = time.monotonic()
            budget = settings.budget_of(step.task)
            trial = exam.ask(prompt, task=step.task, seed=step.seed, max_tokens=budget, fresh=is_fresh)
            if trial.outcome == "error":
                server.require_alive()
            if trial.reported_tokens is not None:
                seconds = time.monotonic() - began
                self.session.pace.seen(trial.cached_tokens or 0, trial.reported_tokens, seconds)
            self.session.add(trial)
            is_fresh, is_refused = False, trial.outcome == "refused"

    def _prompts(self, step: Step, exam: RecallRunner) -> list[Prompt]:
        """All depths are built, since their needles share a haystack; only the open ones are asked."""
        settings = self.session.settings
        prompts = exam.builder.prompts(
            step.task, length=step.length, depths=depths_of(step.task, settings), seed=step.seed
        )
        return [prompt for prompt in prompts if prompt.question.depth in step.depths]

    def _next_step(self) -> Step | None:
        session = self.session
        lengths = session.lengths_of(self.arm)
        return next(open_steps(session.settings, lengths, session.trials[self.arm.name]), None)

    def _announce(self, step: Step, prompt: Prompt, *, is_fresh: bool) -> None:
        pace = self.session.pace
        seconds = pace.seconds(0, step.length) if is_fresh else pace.question_seconds
        depth = prompt.question.depth
        self.session.emit(PromptSent(self.arm.name, step.task.name, step.length, depth, seconds or None))

    def _mark(self, moment: str, sampler: MemorySampler) -> MemorySample | None:
        sample = sampler.mark(moment)
        if sample is not None:
            self.session.emit(MemoryMarked(self.arm.name, sample))
        return sample

    def _note_memory(self, report: ServerReport, seen: Seen) -> None:
        planned = self.arm.plan.memory
        self._note(memory=memory_terms(planned, report, inspection=self.session.inspection, seen=seen))

    def _note(self, **changes: Any) -> None:
        self.result = replace(self.result, **changes)
        self.session.save(self.result)

    def _tell(self, code: str, severity: Severity, message: str, **where: Any) -> None:
        finding = Finding(code, severity, message, {"arm": self.arm.name, **where})
        self._note(findings=(*self.result.findings, finding))
