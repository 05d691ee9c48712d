"""What needles are hidden in: endless synthetic prose, RULER's noise, or a text of the user's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

from ropewalk.errors import UsageError
from ropewalk.limits import MAX_HAYSTACK_BYTES
from ropewalk.measuring.recall import words
from ropewalk.measuring.recall.words import SeededRandom

# The five sentences of RULER's noise haystack (NVIDIA/RULER, scripts/data/synthetic/niah.py, Apache-2.0).
NOISE = (
    "The grass is green.", "The sky is blue.", "The sun is yellow.", "Here we go.", "There and back again.",
)  # fmt: skip
MAX_SENTENCE_WORDS = 40  # longer ones are cut, so that needles come near to their depths


def sentences(haystack: str, *, seed: int) -> Iterator[str]:
    """Sentences of ``prose``, ``noise`` or the text file of that name, in an order that never changes.

    Prose depends on the seed and never ends, so no model has seen it; noise is the easiest haystack. A
    text is read from its start and ends where the file ends. Raises :class:`UsageError`.
    """
    if haystack == "prose":
        return _prose(SeededRandom(seed, "prose"))
    if haystack == "noise":
        return cycle(NOISE)
    return iter(_text(Path(haystack)))


def _prose(dice: SeededRandom) -> Iterator[str]:
    while True:
        yield dice.pick(_FORMS)(dice)


def read_text(path: Path) -> str:
    """A text file of the user's own, of a bounded size. Raises :class:`UsageError`."""
    try:
        if path.stat().st_size > MAX_HAYSTACK_BYTES:
            raise UsageError(f"{path} is larger than {MAX_HAYSTACK_BYTES:,} bytes", where={"file": str(path)})
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the haystack {path} is neither prose, noise nor a readable text: {error}",
            where={"file": str(path)},
        ) from error


def _text(path: Path) -> list[str]:
    text = read_text(path)
    parts = [part.split() for part in re.split(r"(?<=[.!?])\s+|\n{2,}", text)]
    return [
        " ".join(part[start : start + MAX_SENTENCE_WORDS])
        for part in parts
        for start in range(0, len(part), MAX_SENTENCE_WORDS)
    ]


def _visit(dice: SeededRandom) -> str:
    return f"{dice.pick(words.TIMES)} {_person(dice)} {dice.pick(words.DEEDS)} {_thing(dice)} {_at(dice)}."


def _scene(dice: SeededRandom) -> str:
    first, second = _person(dice), _person(dice)
    return f"{_capital(first)} waited for {second} {_at(dice)}, because {dice.pick(words.WEATHER)}."


def _thought(dice: SeededRandom) -> str:
    return (
        f"{_capital(_person(dice))} thought that {dice.pick(words.THOUGHTS)}, and {dice.pick(words.DEEDS)} "
        f"{_thing(dice)}."
    )


def _weather(dice: SeededRandom) -> str:
    return f"{dice.pick(words.TIMES)} {dice.pick(words.WEATHER)}, and {_person(dice)} stayed {_at(dice)}."


def _pair(dice: SeededRandom) -> str:
    return (
        f"{_capital(_person(dice))} {dice.pick(words.DEEDS)} {_thing(dice)}, while {_person(dice)} "
        f"{dice.pick(words.DEEDS)} {_thing(dice)} {_at(dice)}."
    )


_FORMS: tuple[Callable[[SeededRandom], str], ...] = (_visit, _scene, _thought, _weather, _pair)


def _person(dice: SeededRandom) -> str:
    return f"the {dice.pick(words.QUALITIES)} {dice.pick(words.PEOPLE)}"


def _thing(dice: SeededRandom) -> str:
    return f"the {dice.pick(words.LOOKS)} {dice.pick(words.THINGS)}"


def _at(dice: SeededRandom) -> str:
    return f"{dice.pick(('near', 'behind', 'beside', 'at'))} the {dice.pick(words.PLACES)}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
