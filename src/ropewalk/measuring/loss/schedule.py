"""What is left of an arm's texts, and what that costs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ropewalk.measuring.loss.layout import APART, LEAD, TILE, Stop, passages_of, stops_of
from ropewalk.measuring.loss.records import LossSpan, Read
from ropewalk.planner.pace import Pace


@dataclass(frozen=True, slots=True)
class WalkLeft:
    """The stops of all texts that were not read yet, and the passages still to be repeated at ``length``.

    ``per_stop`` tokens are read one by one, or all at once where that is None; ``done_tokens`` were
    evaluated.
    """

    stops: tuple[Stop, ...]
    passages: int
    length: int
    per_stop: int | None
    done_tokens: int

    @property
    def tokens(self) -> int:
        """Tokens that the server has to evaluate, about."""
        return len(self.stops) * _step(self.per_stop) + self.passages * LEAD

    def seconds(self, pace: Pace) -> float:
        """How long that takes at this pace."""
        step, count = _step(self.per_stop), self.per_stop or 0
        total = sum(pace.evaluating(stop.end - step, stop.end) for stop in self.stops)
        total += self.passages * pace.evaluating(self.length - LEAD, self.length)
        total += sum(pace.reading_seconds(stop.start, count) for stop in self.stops)
        return total + self.passages * pace.reading_seconds(self.length, count)


def walk_left(
    spans: Sequence[LossSpan],
    *,
    length: int,
    probes: Collection[Read],
    texts: int,
    per_stop: int | None,
) -> WalkLeft:
    """What is left of so many texts of ``length`` tokens each, for the probes that are wanted."""
    own = stops_of(length, per_stop=per_stop) * texts if "loss" in probes else ()
    read = sum(span.probe == "loss" for span in spans)
    copies = passages_of(length, per_stop=per_stop) * texts if "copy" in probes else 0
    repeated = sum(span.probe == "copy" for span in spans)
    return WalkLeft(
        stops=own[read:],
        passages=max(0, copies - repeated),
        length=length,
        per_stop=per_stop,
        done_tokens=read * _step(per_stop) + repeated * LEAD,
    )


def _step(per_stop: int | None) -> int:
    """Tokens from stop to stop."""
    return TILE if per_stop is None else APART
