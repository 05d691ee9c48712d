"""In which order the grid is asked, what of it is still open, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ropewalk.measuring.recall.prompt import longest_prompt
from ropewalk.measuring.recall.statistics import sprt
from ropewalk.measuring.recall.tasks import Task, find_task
from ropewalk.measuring.records import JUDGED, Trial
from ropewalk.measuring.settings import TAIL_TOKENS, MeasureSettings
from ropewalk.planner.pace import Pace


@dataclass(frozen=True, slots=True)
class Step:
    """One haystack: a task at a length under a seed, and the depths that are not asked yet.

    ``is_new`` says that none of its depths was asked, so the long part must still be evaluated.
    """

    task: Task
    length: int
    seed: int
    depths: tuple[float, ...]
    is_new: bool

    @property
    def tokens(self) -> int:
        """Prompt tokens that the server has to evaluate, about."""
        return (
            self.length + (len(self.depths) - 1) * TAIL_TOKENS
            if self.is_new
            else len(self.depths) * TAIL_TOKENS
        )

    def seconds(self, pace: Pace) -> float:
        """How long that takes at this pace."""
        first = pace.seconds(0, self.length) if self.is_new else pace.question_seconds
        return first + (len(self.depths) - 1) * pace.question_seconds


def depths_of(task: Task, settings: MeasureSettings) -> tuple[float, ...]:
    """The depths that a task is asked at: 0 alone where its matter is everywhere."""
    return settings.depths if task.has_depth else (0.0,)


def open_steps(settings: MeasureSettings, lengths: Sequence[int], trials: Sequence[Trial]) -> Iterator[Step]:
    """What is left of an arm's grid: short lengths first, all depths of a haystack before the next.

    A length is closed once the server has refused it, or the sequential test has decided it.
    """
    for task in map(find_task, settings.tasks if "recall" in settings.probes else ()):
        for length in lengths:
            own = [trial for trial in trials if (trial.task, trial.length) == (task.name, length)]
            for seed in range(settings.seed, settings.seed + settings.trials):
                before = [trial for trial in own if trial.seed < seed]
                if _closed(before, early_stop=settings.early_stop):
                    break
                asked = {trial.depth for trial in own if trial.seed == seed}
                missing = tuple(depth for depth in depths_of(task, settings) if depth not in asked)
                if missing:
                    yield Step(task, length, seed, missing, is_new=not asked)


def tokens_asked(trials: Sequence[Trial]) -> int:
    """Prompt tokens that these trials made a server evaluate, counted as in :attr:`Step.tokens`."""
    answered = [trial for trial in trials if trial.outcome != "refused"]
    haystacks = {(trial.arm, trial.task, trial.length, trial.seed) for trial in answered}
    whole = sum(length for _, _, length, _ in haystacks)
    return whole + (len(answered) - len(haystacks)) * TAIL_TOKENS


def served(lengths: Sequence[int], context_len: int, settings: MeasureSettings) -> list[int]:
    """The lengths that leave room for an answer in this context."""
    longest = longest_prompt(context_len, answer_tokens=settings.longest_answer)
    return [length for length in lengths if length <= longest]


def _closed(trials: Sequence[Trial], *, early_stop: bool) -> bool:
    if any(trial.outcome == "refused" for trial in trials):
        return True
    judged = [trial.outcome == "hit" for trial in trials if trial.outcome in JUDGED]
    return early_stop and sprt(sum(judged), len(judged) - sum(judged)) != "open"
