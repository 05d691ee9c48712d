"""All tasks by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.errors import UsageError
from ropewalk.measuring.recall.tasks import branching, counting, latent, ordinal, ruler, tool_call
from ropewalk.measuring.recall.tasks.records import Task
from ropewalk.measuring.recall.words import SeededRandom
from ropewalk.measuring.records import Trial

# Answer budgets: 7 digits are at most 9 tokens, a UUID at most 37 where every character is one.
TASKS = {
    task.name: task
    for task in (
        Task("niah_single", ruler.single, 16),
        Task("niah_multikey", ruler.multikey, 16),
        Task("niah_multivalue", ruler.multivalue, 64),
        Task("variable_tracking", ruler.tracking, 64),
        Task("common_words", ruler.words, 96, has_depth=False),
        Task("copy_uuid", ruler.uuid, 48, exact=True),
        Task("copy_json", ruler.json, 48, exact=True),
        Task("latent_association", latent.association, 16),
        *(Task(f"nth_of_{number}", ordinal.nth_of(number), 16) for number in ordinal.NUMBERS),
        Task("count_entries", counting.count, 8, has_depth=False),
        Task("most_entries", counting.most, 8, has_depth=False),
        Task("branching_chains", branching.tree, 64),
        Task("tool_call", tool_call.call, 64, is_json=True),
    )
}


def find_task(name: str) -> Task:
    """The task of this name. Raises :class:`UsageError`."""
    task = TASKS.get(name)
    if task is None:
        raise UsageError(f"no task is called {name!r}; there are {', '.join(TASKS)}", where={"task": name})
    return task


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
