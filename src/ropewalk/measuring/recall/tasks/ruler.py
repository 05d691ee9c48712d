"""RULER's tasks, and two in which a string is copied.

The definitions follow RULER (NVIDIA/RULER, scripts/data/synthetic, Apache-2.0), the needle with a number
word for word; the rest is worded shorter, for small models. One departure, for cost: the needles of all
depths stand in one haystack, and the questions, which come last, differ; so the long part is evaluated
once. A question then has as many distractors as there are other depths (RULER's ``multikey`` setting).
"""

from __future__ import annotations

from collections.abc import Sequence

from ropewalk.measuring.recall.tasks.records import Draft, Needle, Question, distinct
from ropewalk.measuring.recall.words import KEYS, SeededRandom

_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HEX = "0123456789abcdef"
NUM_DISTRACTORS = 3  # per question; RULER niah_multikey_1: num_needle_k 4
NUM_VALUES = 4  # RULER niah_multivalue: num_needle_v 4
NUM_HOPS = 4  # RULER vt: num_hops 4
NUM_COMMON = 10  # RULER cwe: 10 common words
COMMON_RATIO = 10  # RULER cwe: 30 times against 3


def _numbers(dice: SeededRandom, depths: Sequence[float], *, per_key: int = 1, distractors: int = 0) -> Draft:
    """One key for every depth with ``per_key`` values, and distractor keys anywhere."""
    keys = iter(dice.shuffled(KEYS))
    values = distinct(lambda: dice.digits(7), len(depths) * (per_key + distractors))
    unused = iter(values)
    needles: list[Needle] = []
    questions: list[Question] = []
    for depth in depths:
        key, own = next(keys), tuple(next(unused) for _ in range(per_key))
        places = [depth, *((depth + step / per_key) % 1 for step in range(1, per_key))]
        questions.append(_ask_numbers(depth, key, own, needle=len(needles)))
        needles += [_number(place, key, value) for place, value in zip(places, own, strict=True)]
        needles += [_number(dice.below(1000) / 1000, next(keys), next(unused)) for _ in range(distractors)]
    intro = "Some special magic numbers are hidden in this text. Remember them.\n\n"
    return Draft(intro, tuple(needles), tuple(questions), tuple(values))


def _number(depth: float, key: str, value: str) -> Needle:
    return Needle(depth, f"One of the special magic numbers for {key} is: {value}.")


def _ask_numbers(depth: float, key: str, values: tuple[str, ...], *, needle: int) -> Question:
    if len(values) == 1:
        text = f"What is the special magic number for {key}?"
        opening = f"The special magic number for {key} is"
    else:
        text = f"What are all the special magic numbers for {key}?"
        opening = f"The special magic numbers for {key} are"
    return Question(depth, text, opening, values, needle)


def single(dice: SeededRandom, depths: Sequence[float]) -> Draft:
    """One number for one key (niah_single)."""
    return _numbers(dice, depths)


def multikey(dice: SeededRandom, depths: Sequence[float]) -> Draft:
    """The same among three more distractor keys per question (niah_multikey_1)."""
    return _numbers(dice, depths, distractors=NUM_DISTRACTORS)


def multivalue(dice: SeededRandom, depths: Sequence[float]) -> Draft:
    """Four numbers for one key (niah_multivalue)."""
    return _numbers(dice, depths, per_key=NUM_VALUES)


def tracking(dice: SeededRandom, depths: Sequence[float]) -> Draft:
    """A chain of assignments for every depth; its hops are spread from there to the end."""
    names = distinct(lambda: dice.text(_UPPER, 5), len(depths) * (NUM_HOPS + 1))
    unused = iter(names)
    values = distinct(lambda: dice.digits(5), len(depths))
    needles: list[Needle] = []
    questions: list[Question] = []
    for depth, value in zip(depths, values, strict=True):
        chain = tuple(next(unused) for _ in range(NUM_HOPS + 1))
        text = f"Which variables have the value {value}? There are {len(chain)}."
        opening = f"The {len(chain)} variables with the value {value} are VAR"
        questions.append(Question(depth, text, opening, chain, len(needles)))
        for hop, name in enumerate(chain):
            place = depth + (1 - depth) * hop / (NUM_HOPS + 1)
            needles.append(Needle(place, f"VAR {name} = {f'VAR {chain[hop - 1]}' if hop else value}."))
    intro = "Assignments of variables are hidden in this text. Remember them.\n\n"
    return Draft(intro, tuple(needles), tuple(questions), tuple(names))


def words(dice: SeededRandom, depths: Sequence[float]) -> Draft:
    """Ten common words, ten times as often as the rest; unlike RULER's, the counts grow with the length."""
    mixed = dice.shuffled(KEYS)
    common, rare = mixed[:NUM_COMMON], mixed[NUM_COMMON : NUM_COMMON * (COMMON_RATIO + 1)]
    lines = []
    for start in range(0, len(rare), NUM_COMMON):
        line = ", ".join(dice.shuffled(common + rare[start : start + NUM_COMMON]))
        lines.append(f"{line}.")
    text = f"What are the {NUM_COMMON} most common words in the list?"
    question = Question(0.0, text, f"The {NUM_COMMON} most common words are", tuple(common), None)
    intro = "Some words come up again and again in this list. Remember them.\n\n"
    return Draft(intro, (), (question,), tuple(mixed), tuple(lines))


def uuid(dice: SeededRandom, depths: Sequence[float]) -> Draft:
    """A UUID to be copied."""

    def draw() -> str:
        return "-".join(dice.text(_HEX, count) for count in (8, 4, 4, 4, 12))

    return _copies(dice, depths, what="code", values=distinct(draw, len(depths)))


def json(dice: SeededRandom, depths: Sequence[float]) -> Draft:
    """A JSON record to be copied."""

    def draw() -> str:
        return f'{{"id": "{dice.text(_HEX, 6)}", "port": {dice.digits(4)}}}'

    return _copies(dice, depths, what="record", values=distinct(draw, len(depths)))


def _copies(dice: SeededRandom, depths: Sequence[float], *, what: str, values: Sequence[str]) -> Draft:
    keys = dice.shuffled(KEYS)[: len(depths)]
    needles = [
        Needle(depth, f"The {what} of {key} is {value}.")
        for depth, key, value in zip(depths, keys, values, strict=True)
    ]
    questions = [
        Question(depth, f"What is the {what} of {key}?", f"The {what} of {key} is", (value,), index)
        for index, (depth, key, value) in enumerate(zip(depths, keys, values, strict=True))
    ]
    intro = f"Some {what}s are hidden in this text. Remember them.\n\n"
    return Draft(intro, tuple(needles), tuple(questions), tuple(values))
