"""What all arms of a run share, kept in the store at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ropewalk import jsonio
from ropewalk.engines import EngineBuild
from ropewalk.findings import Finding
from ropewalk.inspector.records import Inspection
from ropewalk.measuring.arms import Arm, own_lengths
from ropewalk.measuring.events import ArmEnded, Event, GridChosen, Progress, TrialEnded
from ropewalk.measuring.records import ArmResult, Measurement, Trial
from ropewalk.measuring.schedule import Step, open_steps, served, tokens_asked
from ropewalk.measuring.settings import MeasureSettings
from ropewalk.measuring.store import RunStore
from ropewalk.planner.pace import Pace

OnEvent = Callable[[Event], None]


@dataclass(slots=True)
class Session:
    """A run in progress.

    ``memo`` are sentences already tokenized, since all arms have one tokenizer; ``ended`` the arms of
    which nothing more will be asked.
    """

    frame: Measurement
    settings: MeasureSettings
    inspection: Inspection
    model: str
    build: EngineBuild
    arms: tuple[Arm, ...]
    store: RunStore
    emit: OnEvent
    pace: Pace
    trials: dict[str, list[Trial]]
    memo: dict[str, list[int]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    @property
    def run_id(self) -> str:
        """The run's name in the store."""
        return self.frame.run_id

    @property
    def lengths(self) -> tuple[int, ...]:
        """The prompt lengths; fixed when the session begins."""
        assert self.settings.lengths is not None  # noqa: S101
        return self.settings.lengths

    def lengths_of(self, arm: Arm) -> tuple[int, ...]:
        """The prompt lengths that this arm is asked at."""
        return own_lengths(arm, self.arms, self.lengths)

    def served(self, arm: Arm, lengths: Sequence[int]) -> list[int]:
        """Of a grid's lengths, those that this arm will answer: none of one that is refused or has ended."""
        if arm.name in self.ended or arm.plan.rope.decision == "refuse":
            return []
        return served(own_lengths(arm, self.arms, lengths), arm.plan.context_len, self.settings)

    def asked(self, lengths: Sequence[int]) -> list[int]:
        """The prompts of one haystack per length that such a grid amounts to, over all arms."""
        return [length for arm in self.arms for length in self.served(arm, lengths)]

    def note(self, *findings: Finding, **changes: Any) -> None:
        """Change the run's own record, and store it."""
        self.frame = replace(self.frame, findings=(*self.frame.findings, *findings), **changes)
        self.store.update(self.frame)

    def fix(self, settings: MeasureSettings, *findings: Finding) -> None:
        """From here on the grid is this one, for the arms to come and for whoever resumes the run."""
        self.settings = settings
        self.note(*findings, settings=settings_data(settings, arms=self.frame.settings["arms"]))
        self.tell_grid()

    def tell_grid(self) -> None:
        """Report which lengths, depths and trials will be asked."""
        self.emit(GridChosen(self.lengths, self.settings.depths, self.settings.trials))

    def save(self, result: ArmResult) -> None:
        """Store what was seen of an arm so far."""
        position = [arm.name for arm in self.arms].index(result.arm)
        self.store.save_arm(self.run_id, result, position=position)

    def end(self, result: ArmResult) -> None:
        """Nothing more of this arm will be asked, complete or not."""
        self.ended.add(result.arm)
        self.emit(ArmEnded(result))

    def add(self, trial: Trial) -> None:
        """Store a trial, then tell it."""
        self.store.add_trial(self.run_id, trial)
        self.trials[trial.arm].append(trial)
        self.emit(TrialEnded(trial, self.progress()))

    def progress(self) -> Progress:
        """How far all arms are together; trials that the sequential test may save are still counted."""
        steps = [step for arm in self.arms for step in self._open(arm)]
        done = sum(tokens_asked(trials) for trials in self.trials.values())
        left = sum(step.seconds(self.pace) for step in steps)
        return Progress(done, done + sum(step.tokens for step in steps), left if self.pace.is_known else None)

    def _open(self, arm: Arm) -> Iterable[Step]:
        return open_steps(self.settings, self.served(arm, self.lengths), self.trials[arm.name])


def settings_data(settings: MeasureSettings, *, arms: Sequence[str]) -> dict[str, Any]:
    """Settings as they stand in the record, with the names of the arms."""
    return {**jsonio.to_data(settings), "arms": list(arms)}
