"""Assignments that branch: all variables of a tree, over the whole length.

After RULER's variable tracking (NVIDIA/RULER, scripts/data/synthetic, Apache-2.0), whose chains have one
branch, each variable assigned from the one before it: here two are from the first and one more from each of
those.
"""

from __future__ import annotations

from collections.abc import Sequence

from ropewalk.measuring.recall.tasks.records import Draft, Needle, Question, distinct
from ropewalk.measuring.recall.words import SeededRandom

_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_FROM = (None, 0, 0, 1, 2)  # which variable each one is assigned from; the first has the value itself


def tree(dice: SeededRandom, depths: Sequence[float]) -> Draft:
    """A tree for every depth, where its root stands; the rest is spread from there to the end."""
    size = len(_FROM)
    names = distinct(lambda: dice.text(_UPPER, 5), len(depths) * size)
    values = distinct(lambda: dice.digits(5), len(depths))
    needles: list[Needle] = []
    questions: list[Question] = []
    for number, (depth, value) in enumerate(zip(depths, values, strict=True)):
        own = tuple(names[number * size : (number + 1) * size])
        text = f"Which variables have the value {value}? There are {size}."
        opening = f"The {size} variables with the value {value} are VAR"
        questions.append(Question(depth, text, opening, own, len(needles)))
        for index, (name, source) in enumerate(zip(own, _FROM, strict=True)):
            place = depth + (1 - depth) * index / size
            needles.append(
                Needle(place, f"VAR {name} = {value if source is None else f'VAR {own[source]}'}.")
            )
    intro = "Assignments of variables are hidden in this text. Remember them.\n\n"
    return Draft(intro, tuple(needles), tuple(questions), tuple(names))
