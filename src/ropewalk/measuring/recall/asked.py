"""What a stored trial asked, in words: made again from its seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.measuring.recall.seeded_random import SeededRandom
from ropewalk.measuring.recall.tasks import TASKS
from ropewalk.measuring.records import Trial


@dataclass(frozen=True, slots=True)
class Asked:
    """The sentence that was hidden (None where the matter is everywhere), the question, and the opening words
    of the answer."""

    needle: str | None
    question: str
    opening: str


def asked(trial: Trial, depths: Sequence[float]) -> Asked | None:
    """What a trial asked; None where the protocol has changed since. ``depths`` are those of its run."""
    task = TASKS.get(trial.task)
    if task is None:
        return None
    draft = task.draft(
        SeededRandom(trial.seed, task.name, trial.length), tuple(depths) if task.has_depth else (0.0,)
    )
    question = next((one for one in draft.questions if one.expected == trial.expected), None)
    if question is None:
        return None
    needle = None if question.needle is None else draft.needles[question.needle].text
    return Asked(needle, question.text, question.opening)
