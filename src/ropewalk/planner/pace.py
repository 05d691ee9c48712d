"""How long prompts take, learnt from those already evaluated."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.planner.records import Compute

_SHORT = 256  # below this the overhead of a request counts, not the work


@dataclass(slots=True)
class Pace:
    """``linear`` FLOPs per token and ``square`` per token squared, from the plan; the rest is measured.

    ``question_seconds`` is what a request costs of which nearly all is cached, ``reading_seconds`` what
    reading single tokens does.
    """

    linear: float = 1.0
    square: float = 0.0
    _work: float = 0.0
    _seconds: float = 0.0
    _questions: int = 0
    _question_seconds: float = 0.0
    _read_work: float = 0.0
    _read_seconds: float = 0.0

    def seen(self, start: int, end: int, seconds: float) -> None:
        """Tokens ``start`` to ``end`` of a prompt took so long."""
        if end - start < _SHORT:
            self._questions += 1
            self._question_seconds += seconds
        else:
            self._work += self._flops(start, end)
            self._seconds += seconds

    def seconds(self, start: int, end: int) -> float:
        """What these tokens will take; 0 while nothing was seen."""
        if end - start < _SHORT:
            return self.question_seconds
        return self.evaluating(start, end)

    def evaluating(self, start: int, end: int) -> float:
        """The work alone of these tokens, as part of a longer prompt."""
        return self._flops(start, end) * self._seconds / self._work if self._work else 0.0

    def read(self, at: int, count: int, seconds: float) -> None:
        """So many single tokens at this position took so long."""
        self._read_work += count * self._flops(at, at + 1)
        self._read_seconds += seconds

    def reading_seconds(self, at: int, count: int) -> float:
        """What reading so many tokens there will take; a guess from the prefill while none was read."""
        work, seconds = (
            (self._read_work, self._read_seconds) if self._read_work else (self._work, self._seconds)
        )
        return count * self._flops(at, at + 1) * seconds / work if work else 0.0

    @property
    def is_known(self) -> bool:
        """Whether any prompt was evaluated yet."""
        return self._work > 0

    @property
    def question_seconds(self) -> float:
        """The mean of short requests; 0 while none was seen."""
        return self._question_seconds / self._questions if self._questions else 0.0

    def _flops(self, start: int, end: int) -> float:
        return self.linear * (end - start) + self.square * (end**2 - start**2)


def pace_of(compute: Compute | None, *, context_len: int) -> Pace:
    """The pace of a plan: causal attention grows with the square of the length, the rest with it."""
    if compute is None:
        return Pace()
    prefill = compute.prefill
    return Pace(prefill.linear_flops / context_len, prefill.attention_flops_causal / context_len**2)
