"""Walks one server through a text and writes down what it makes of the tokens at each stop."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ropewalk.measuring.loss.layout import Stop, Walk
from ropewalk.measuring.loss.records import LossSpan
from ropewalk.serving.client import Reading, TokenLosses


class Readable(Protocol):
    """The part of :class:`ropewalk.serving.client.ServerClient` that losses are read from."""

    def token_losses(
        self, tokens: Sequence[int], spans: Sequence[tuple[int, int]]
    ) -> Iterator[TokenLosses]: ...


@dataclass(frozen=True, slots=True)
class Timed:
    """A span, and what reading its tokens took beside the prefill; None where both were done at once."""

    span: LossSpan
    read_seconds: float | None


@dataclass(frozen=True, slots=True)
class LossReader:
    """One arm's server; ``identity`` is what decides a probability beside the text: weights, engine, rope,
    cache types, context; ``reading`` how the engine shows the probabilities of given tokens."""

    arm: str
    client: Readable
    reading: Reading
    identity: Mapping[str, Any]

    def key(self, walk: Walk, stop: Stop) -> str:
        """Names a span: the same key is the same tokens to the same server."""
        tokens = walk.tokens[: stop.end]
        asked = {
            **self.identity,
            "probe": stop.probe,
            "start": stop.start,
            "tokens": hashlib.sha256(",".join(map(str, tokens)).encode()).hexdigest(),
        }
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def read(self, walk: Walk, *, known: Collection[str] = ()) -> Iterator[Timed]:
        """The stops of a walk in turn, but those whose keys are known; each as soon as it was read.

        Raises :class:`ropewalk.errors.EngineError` where the server does not answer as it should.
        """
        stops = [(stop, key) for stop in walk.stops if (key := self.key(walk, stop)) not in known]
        if not stops:
            return
        spans = [(stop.start, stop.end) for stop, _ in stops]
        began = time.monotonic()
        found = self.client.token_losses(walk.tokens, spans)
        for (stop, key), losses in zip(stops, found, strict=True):
            ended = time.monotonic()
            yield self._timed(walk, stop, key, losses, seconds=ended - began)
            began = time.monotonic()

    def _timed(self, walk: Walk, stop: Stop, key: str, losses: TokenLosses, *, seconds: float) -> Timed:
        span = LossSpan(
            key=key,
            arm=self.arm,
            probe=stop.probe,
            text=walk.text,
            start=stop.start,
            tokens=walk.tokens[stop.start : stop.end],
            losses=losses.losses,
            bounds=losses.bounds,
            distance=stop.distance,
            evaluated=None if losses.evaluated_from is None else stop.start - losses.evaluated_from,
            seconds=losses.prefill_seconds,
        )
        is_stepped = self.reading == "stops" and losses.prefill_seconds is not None
        read = max(seconds - (losses.prefill_seconds or 0.0), 0.0) if is_stepped else None
        return Timed(span, read)
