"""What a task is made of: needles, where they go, the questions about one haystack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ropewalk.measuring.recall.words import SeededRandom


@dataclass(frozen=True, slots=True)
class Needle:
    """A sentence to be hidden; ``depth`` is its place as a share of the prompt in tokens."""

    depth: float
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """One question about the haystack, the answer's opening words, and what has to follow.

    ``needle`` is the index of the (first) needle that it asks for; None where the matter is everywhere.
    """

    depth: float
    text: str
    opening: str
    expected: tuple[str, ...]
    needle: int | None


@dataclass(frozen=True, slots=True)
class Draft:
    """All that is said in one haystack: ``intro``, needles, questions.

    ``values`` are all that an answer may be mistaken for; ``lines`` replace the haystack where the
    task brings its own, and are repeated.
    """

    intro: str
    needles: tuple[Needle, ...]
    questions: tuple[Question, ...]
    values: tuple[str, ...]
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """A kind of question. ``answer_tokens`` is room for every tokenizer seen, ``exact`` forbids rewording,
    ``is_json`` wants one JSON value and nothing beside it."""

    name: str
    draft: Callable[[SeededRandom, Sequence[float]], Draft]
    answer_tokens: int
    exact: bool = False
    has_depth: bool = True
    is_json: bool = False


def distinct(draw: Callable[[], str], count: int) -> list[str]:
    """``count`` values, none of which is drawn twice."""
    drawn: dict[str, None] = {}
    while len(drawn) < count:
        drawn[draw()] = None
    return list(drawn)
