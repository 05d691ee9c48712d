"""Draws that come out alike on every Python version."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class SeededRandom:
    """Draws from one seed. Only ``Random.random`` is used: the one sequence that Python guarantees."""

    def __init__(self, *seed: object) -> None:
        self._random = Random("/".join(map(str, seed)))  # noqa: S311  prompts, not secrets

    def below(self, bound: int) -> int:
        """A whole number from 0 to ``bound`` - 1."""
        return int(self._random.random() * bound)

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All items in another order (Fisher and Yates)."""
        mixed = list(items)
        for last in range(len(mixed) - 1, 0, -1):
            other = self.below(last + 1)
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed

    def digits(self, count: int) -> str:
        """A number of exactly ``count`` digits."""
        return str(10 ** (count - 1) + self.below(9 * 10 ** (count - 1)))

    def text(self, alphabet: str, count: int) -> str:
        """``count`` characters of the alphabet."""
        return "".join(self.pick(alphabet) for _ in range(count))
