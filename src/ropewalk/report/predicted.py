"""Speed in words: predicted with its range, or a bound."""

from __future__ import annotations

from ropewalk.planner.records import Speed
from ropewalk.units import format_seconds


def decode_words(speed: Speed | None) -> str:
    """Tokens per second: ``33 – 52``, or ``≤ 60`` for a bound; a dash where nothing is known."""
    if speed is None or speed.decode_tokens_per_second is None:
        return "–"
    low, high = speed.decode_tokens_per_second_low, speed.decode_tokens_per_second_high
    if low is None or high is None:
        return f"≤ {_rate(speed.decode_tokens_per_second)}"
    return f"{_rate(low)} – {_rate(high)}"


def prefill_words(speed: Speed | None) -> str:
    """Time to the first token of the longest prompt: ``12 s – 20 s``, or ``≥ 9 s`` for a bound."""
    if speed is None or speed.prefill_seconds is None:
        return "–"
    low, high = speed.prefill_seconds_low, speed.prefill_seconds_high
    if low is None or high is None:
        return f"≥ {format_seconds(speed.prefill_seconds)}"
    return f"{format_seconds(low)} – {format_seconds(high)}"


def _rate(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"
