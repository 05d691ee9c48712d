"""What all arms of a run share, kept in the store at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ropewalk import jsonio
from ropewalk.engines import EngineBuild
from ropewalk.findings import Finding
from ropewalk.inspector.records import Inspection
from ropewalk.measuring.arms import Arm, own_lengths, own_walk_len
from ropewalk.measuring.events import ArmEnded, Event, GridChosen, LossesRead, Progress, TrialEnded
from ropewalk.measuring.loss.layout import stops_of
from ropewalk.measuring.loss.records import LossSpan, ProbeText
from ropewalk.measuring.loss.schedule import WalkLeft, walk_left
from ropewalk.measuring.records import ArmResult, Measurement, Trial
from ropewalk.measuring.schedule import Step, open_steps, served, tokens_asked
from ropewalk.measuring.settings import MeasureSettings
from ropewalk.measuring.store import RunStore
from ropewalk.planner.pace import Pace
from ropewalk.serving.client import Reading
from ropewalk.serving.engines import adapter_of

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
    losses: dict[str, list[LossSpan]] = field(default_factory=dict)
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
        depths = self.settings.depths if "recall" in self.settings.probes else ()
        self.emit(GridChosen(self.lengths, depths, self.settings.trials))

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

    def add_losses(self, span: LossSpan) -> None:
        """Store losses, then tell them."""
        self.store.add_losses(self.run_id, span)
        self.losses[span.arm].append(span)
        self.emit(LossesRead(span, self.progress()))

    def note_texts(self, texts: Sequence[ProbeText]) -> None:
        """Which texts the losses are of; the same ones for every arm."""
        if self.frame.texts != tuple(texts):
            self.note(texts=tuple(texts))

    @property
    def reading(self) -> Reading | None:
        """How the engine shows the probabilities of a text."""
        return adapter_of(self.build.engine).READING

    @property
    def per_stop(self) -> int | None:
        """Tokens read at each stop; None where all of a text are read at once."""
        return None if self.reading == "whole" else self.settings.tokens_per_stop

    def is_read(self, arm: Arm) -> bool:
        """Whether nothing of the texts is left to be read by this arm."""
        left = self._walk_left(arm)
        return not left.stops and not left.passages

    def reading_seconds(self, per_stop: int) -> float:
        """What reading so many tokens at each stop takes, over all arms, beside the prefill."""
        if not self.settings.reads or self.reading != "stops":
            return 0.0
        texts = max(1, len(self.settings.texts))
        lengths = [self.walk_len(arm) for arm in self.arms if arm.plan.rope.decision != "refuse"]
        stops = [stop.start for length in lengths for stop in stops_of(length, per_stop=per_stop)]
        return texts * sum(self.pace.reading_seconds(at, per_stop) for at in stops)

    def walk_len(self, arm: Arm) -> int:
        """How far this arm is led through a text, in tokens."""
        return own_walk_len(arm, self.arms, self.lengths)

    def is_walked(self, step: Step, arm: Arm) -> bool:
        """Whether this haystack is the text that losses are read of, so that its questions come after it."""
        first = (self.settings.tasks[0], self.lengths[-1], self.settings.seed)
        return (
            "loss" in self.settings.probes
            and not self.settings.texts
            and self.reading == "stops"
            and (step.task.name, step.length, step.seed) == first
            and self.walk_len(arm) == self.lengths[-1]
        )

    def progress(self) -> Progress:
        """How far all arms are together; trials that the sequential test may save are still counted."""
        walks = [self._walk_left(arm) for arm in self.arms]
        steps = [step for arm, walk in zip(self.arms, walks, strict=True) for step in self._open(arm, walk)]
        done = sum(tokens_asked(trials) for trials in self.trials.values())
        done += sum(walk.done_tokens for walk in walks)
        tokens = sum(step.tokens for step in steps) + sum(walk.tokens for walk in walks)
        left = sum(step.seconds(self.pace) for step in steps)
        left += sum(walk.seconds(self.pace) for walk in walks)
        return Progress(done, done + tokens, left if self.pace.is_known else None)

    def _walk_left(self, arm: Arm) -> WalkLeft:
        """Nothing of an arm that has ended, or whose server shows no probabilities."""
        is_over = arm.name in self.ended or arm.plan.rope.decision == "refuse" or self.reading is None
        probes = (
            () if is_over else tuple(probe for probe in ("loss", "copy") if probe in self.settings.probes)
        )
        return walk_left(
            self.losses.get(arm.name, ()),
            length=self.walk_len(arm),
            probes=probes if self.walk_len(arm) == self.lengths[-1] else probes[:1],
            texts=max(1, len(self.settings.texts)),
            per_stop=self.per_stop,
        )

    def _open(self, arm: Arm, walk: WalkLeft) -> Iterable[Step]:
        """A haystack that is still to be walked through is in the cache when its questions come."""
        for step in open_steps(self.settings, self.served(arm, self.lengths), self.trials[arm.name]):
            is_cached = walk.stops and self.is_walked(step, arm)
            yield replace(step, is_new=False) if is_cached else step


def settings_data(settings: MeasureSettings, *, arms: Sequence[str]) -> dict[str, Any]:
    """Settings as they stand in the record, with the names of the arms."""
    return {**jsonio.to_data(settings), "arms": list(arms)}
