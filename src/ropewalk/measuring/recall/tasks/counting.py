"""What only the whole text tells: how many entries are of a kind, and of which there are most.

After OOLONG (A. Bertsch and others, 2025), which has a model classify and count lines of known data sets.
Here the entries name their kind, so that counting alone is asked for, and they are spread over synthetic
prose.
"""

from __future__ import annotations

from collections.abc import Sequence

from ropewalk.measuring.recall.tasks.records import Draft, Needle, Question
from ropewalk.measuring.recall.words import SeededRandom

KINDS = ("apples", "candles", "blankets", "lanterns")
MOST = 9  # entries of the commonest kind
LEAST = 2


def count(dice: SeededRandom, depths: Sequence[float]) -> Draft:
    """How many orders are of one kind, from two to nine."""
    counts, needles = _orders(dice)
    kind = dice.pick(KINDS)
    text = f"How many orders in the text are for {kind}? Answer with a number."
    opening = f"The number of orders for {kind} is"
    question = Question(0.0, text, opening, (str(counts[kind]),), None)
    return Draft(_INTRO, needles, (question,), ())  # a text of one's own may have any of the numbers


def most(dice: SeededRandom, depths: Sequence[float]) -> Draft:
    """Which kind has most orders."""
    counts, needles = _orders(dice)
    kind = max(counts, key=lambda name: counts[name])
    text = f"What are most orders in the text for: {', '.join(KINDS[:-1])} or {KINDS[-1]}?"
    return Draft(_INTRO, needles, (Question(0.0, text, "Most orders are for", (kind,), None),), KINDS)


_INTRO = "Orders are hidden in this text. Remember how many there are of each kind.\n\n"


def _orders(dice: SeededRandom) -> tuple[dict[str, int], tuple[Needle, ...]]:
    """Different counts of each kind, all orders mixed and spread evenly."""
    numbers = dice.shuffled(range(LEAST, MOST))[: len(KINDS) - 1]
    counts = dict(zip(dice.shuffled(KINDS), [MOST, *numbers], strict=True))
    mixed = dice.shuffled([kind for kind, number in counts.items() for _ in range(number)])
    needles = (
        Needle((index + 0.5) / len(mixed), f"Somebody has placed an order for {kind}.")
        for index, kind in enumerate(mixed)
    )
    return counts, tuple(needles)
