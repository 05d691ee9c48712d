"""What an engine says about itself: a running server over HTTP and in its log, a dry run in its answer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_METRIC = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{.*\})? (?P<value>[-+.\deE]+)$")


@dataclass(frozen=True, slots=True)
class PrintedBuffer:
    """One buffer as the engine printed it.

    ``name`` is a memory term of the plan (``weights``, ``kv_cache``, ``state``, ``output_buffer``,
    ``compute_buffer``), ``device`` the engine's own word for where it lies. The true size is within
    ``rounding_bytes`` of ``bytes``: the engine prints two decimals of a MiB or GiB.
    """

    name: str
    device: str
    bytes: int
    rounding_bytes: int


@dataclass(frozen=True, slots=True)
class PrintedTerm:
    """All buffers of one memory term together."""

    name: str
    bytes: int
    rounding_bytes: int


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What a ready server reports. ``context_len`` is tokens per sequence, prompt and answer together.

    ``num_sequences`` is None where the engine does not say. ``cells`` counts the tokens that the KV cache
    holds (llama-server: of its largest cache; vLLM: blocks x block size). ``freq_scale`` is what positions
    are multiplied by (llama-server: 1 / factor), None where it is not printed. ``max_concurrency`` is how
    many requests of full length the pool holds at once (vLLM), None where the engine does not say.
    """

    model_name: str
    context_len: int
    num_sequences: int | None
    cells: int | None = None
    buffers: tuple[PrintedBuffer, ...] = ()
    freq_scale: float | None = None
    max_concurrency: float | None = None

    def printed(self, name: str) -> PrintedTerm | None:
        """The printed size of a memory term over all devices, or None where it was not printed."""
        return term_of(self.buffers, name)


def term_of(buffers: Iterable[PrintedBuffer], name: str) -> PrintedTerm | None:
    """All buffers of one memory term together; None where there is none."""
    found = [buffer for buffer in buffers if buffer.name == name]
    if not found:
        return None
    return PrintedTerm(
        name=name,
        bytes=sum(buffer.bytes for buffer in found),
        rounding_bytes=sum(buffer.rounding_bytes for buffer in found),
    )


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """What a server is doing at one moment; totals are since its start. Unknown is None.

    ``kv_tokens`` are the tokens that the cache holds, finished prompts that may be reused included.
    ``prompt_seconds`` and ``generated_seconds`` are the engine's own time for its totals.
    """

    running: int
    waiting: int
    kv_share: float | None
    kv_tokens: int | None
    prompt_tokens: int
    generated_tokens: int
    prompt_seconds: float | None = None
    generated_seconds: float | None = None


def read_metrics(text: str) -> dict[str, float]:
    """Prometheus text as totals over all labels, by the name of the metric."""
    totals: dict[str, float] = {}
    for line in text.splitlines():
        if match := _METRIC.match(line):
            totals[match["name"]] = totals.get(match["name"], 0.0) + float(match["value"])
    return totals


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """Memory as the engine itself works it out; ``source`` names the engine and how it was asked.

    ``cache_bytes`` are all caches together, for an engine that has one pool for them. ``counts`` are other
    numbers of the plan by their names in :class:`ropewalk.planner.records.KvCache`. ``refusal`` is the
    engine's reason where it would not serve the plan at all; everything else is empty then.
    """

    source: str
    terms: tuple[PrintedTerm, ...] = ()
    cache_bytes: int | None = None
    counts: tuple[tuple[str, float], ...] = ()
    refusal: str | None = None
