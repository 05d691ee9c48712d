"""The n-th of a kind: which of several needles that differ only in their values.

After MRCR (K. Vodrahalli and others, Michelangelo, 2024, arXiv 2409.12640; OpenAI's MRCR with 2, 4 and 8 of
a kind), which asks a chat for the n-th answer to one request, written out, and scores by similarity. Here
they are notes with a number, so that one answer is right and judging is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ropewalk.measuring.recall.tasks.records import Draft, Needle, Question, distinct
from ropewalk.measuring.recall.words import KEYS, SeededRandom

NUMBERS = (2, 4, 8)
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def nth_of(number: int) -> Callable[[SeededRandom, Sequence[float]], Draft]:
    """The task with so many needles of each kind, one kind for every depth."""

    def draft(dice: SeededRandom, depths: Sequence[float]) -> Draft:
        return _notes(dice, depths, number=number)

    return draft


def _notes(dice: SeededRandom, depths: Sequence[float], *, number: int) -> Draft:
    """The note asked for stands at its depth; those before and after it are spread over what is left."""
    values = distinct(lambda: dice.digits(7), len(depths) * number)
    needles: list[Needle] = []
    questions: list[Question] = []
    for kind, (depth, key) in enumerate(zip(depths, dice.shuffled(KEYS), strict=False)):
        own = values[kind * number : (kind + 1) * number]
        asked = _asked(dice, depth, number)
        questions.append(
            Question(
                depth,
                f"What is the number in the {ORDINALS[asked]} note about {key}?",
                f"The number in the {ORDINALS[asked]} note about {key} is",
                (own[asked],),
                len(needles) + asked,
            )
        )
        places = _places(depth, asked, number)
        needles += [
            Needle(place, f"A note about {key} has the number {value}.")
            for place, value in zip(places, own, strict=True)
        ]
    intro = f"There are {number} notes about each of several things in this text. Remember their order.\n\n"
    return Draft(intro, tuple(needles), tuple(questions), tuple(values))


def _asked(dice: SeededRandom, depth: float, number: int) -> int:
    """Which of them: the first at the very start, the last at the very end, else any."""
    if depth in (0, 1):
        return 0 if depth == 0 else number - 1
    return dice.below(number)


def _places(depth: float, asked: int, number: int) -> list[float]:
    """Ascending, the asked one at ``depth``."""
    before = [depth * (index + 1) / (asked + 1) for index in range(asked)]
    after = [depth + (1 - depth) * index / (number - asked) for index in range(1, number - asked)]
    return [*before, depth, *after]
