"""A measurement as it is watched: built from its events, or from a stored run with its trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ropewalk import core
from ropewalk.measuring import events
from ropewalk.measuring.records import ArmResult, Measurement, RecallCell, RunStatus, Trial
from ropewalk.serving.host.process_memory import MemorySample

Key = tuple[str, str, int, float]  # arm, task, length, depth


@dataclass(frozen=True, slots=True)
class ArmView:
    """One arm: what was told of it so far. ``result`` is there once the arm has ended."""

    name: str
    label: str
    context_len: int | None = None
    ready_seconds: float | None = None
    samples: tuple[MemorySample, ...] = ()
    result: ArmResult | None = None


@dataclass(frozen=True, slots=True)
class RunView:
    """A run: its arms, its grid as far as it is known, its trials, where it is now."""

    run_id: str
    status: RunStatus = "running"
    target_len: int | None = None
    arms: tuple[ArmView, ...] = ()
    lengths: tuple[int, ...] = ()
    depths: tuple[float, ...] = ()
    trials_per_cell: int = 1
    trials: tuple[Trial, ...] = ()
    current: events.PromptSent | None = None
    starting: str | None = None
    progress: events.Progress | None = None
    measurement: Measurement | None = None

    def arm(self, name: str) -> ArmView | None:
        """The arm of this name."""
        return next((arm for arm in self.arms if arm.name == name), None)

    def tasks(self) -> tuple[str, ...]:
        """The tasks that were asked, in order."""
        current = (self.current.task,) if self.current else ()
        return tuple(dict.fromkeys((*(trial.task for trial in self.trials), *current)))

    def cells(self) -> dict[Key, RecallCell]:
        """Every cell that has a trial."""
        found: dict[Key, RecallCell] = {}
        for arm in self.arms:
            own = [trial for trial in self.trials if trial.arm == arm.name]
            found |= {(arm.name, cell.task, cell.length, cell.depth): cell for cell in core.recall_cells(own)}
        return found

    def trials_of(self, key: Key) -> tuple[Trial, ...]:
        """The trials behind one cell of the grid."""
        return tuple(
            trial for trial in self.trials if (trial.arm, trial.task, trial.length, trial.depth) == key
        )

    def after(self, event: events.Event) -> RunView:
        """The view once this was told."""
        match event:
            case events.RunStarted():
                arms = tuple(self.arm(name) or ArmView(name, name) for name in event.arms)
                return replace(self, run_id=event.run_id, status="running", arms=arms)
            case events.GridChosen():
                return replace(self, lengths=event.lengths, depths=event.depths, trials_per_cell=event.trials)
            case events.PromptSent():
                return replace(self, current=event, starting=None)
            case events.TrialEnded():
                trials = (*self.trials, event.trial)
                return replace(self, trials=trials, progress=event.progress, current=None)
            case events.LossesRead():
                return replace(self, progress=event.progress)
            case events.RunEnded():
                ended = stored_view(event.measurement, self.trials)
                return replace(ended, progress=self.progress)
        return self._after_arm(event)

    def _after_arm(self, event: events.Event) -> RunView:
        match event:
            case events.ArmStarted():
                started = self._with_arm(event.arm, label=event.label, context_len=event.context_len)
                return replace(started, starting=event.label)
            case events.ArmReady():
                ready = self._with_arm(
                    event.arm, ready_seconds=event.ready_seconds, context_len=event.context_reported
                )
                return replace(ready, starting=None)
            case events.MemoryMarked():
                arm = self.arm(event.arm)
                return self._with_arm(event.arm, samples=(*(arm.samples if arm else ()), event.sample))
            case events.ArmEnded():
                result = event.result
                return self._with_arm(result.arm, result=result, samples=result.samples)
        return self

    def _with_arm(self, name: str, **changes: Any) -> RunView:
        arms = tuple(replace(arm, **changes) if arm.name == name else arm for arm in self.arms)
        return replace(self, arms=arms)


def stored_view(run: Measurement, trials: Sequence[Trial]) -> RunView:
    """A run as the store has it."""
    settings: Mapping[str, Any] = run.settings
    return RunView(
        run_id=run.run_id,
        status=run.status,
        target_len=run.target_len,
        arms=tuple(
            ArmView(
                arm.arm,
                arm.label,
                arm.context_reported or arm.context_planned,
                arm.ready_seconds,
                arm.samples,
                arm,
            )
            for arm in run.arms
        ),
        lengths=tuple(settings.get("lengths") or sorted({trial.length for trial in trials})),
        depths=tuple(settings.get("depths") or sorted({trial.depth for trial in trials})),
        trials_per_cell=int(settings.get("trials") or 1),
        trials=tuple(trials),
        measurement=run,
    )
