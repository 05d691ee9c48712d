"""Prompts timed on a machine become its speed, and its speed a prediction for other lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ropewalk.planner.least_squares import nonnegative
from ropewalk.planner.records import Prefill, PromptWork, Speed
from ropewalk.units import format_tokens

_MIN_LENGTHS = 2  # one length cannot tell attention from the linear layers
# Arms of one run that do the same work, on the same two cores: 120 and 130, 62 and 68 tok/s (README).
_REPEATABILITY = 0.05


@dataclass(frozen=True, slots=True)
class TimedPrompt:
    """A prompt that was evaluated whole, nothing of it from a cache."""

    work: PromptWork
    seconds: float


@dataclass(frozen=True, slots=True)
class PrefillRates:
    """Effective FLOPs per second of the two parts of prefill; None where a part took no time of its own."""

    seconds_fixed: float
    linear_flops_per_second: float | None
    attention_flops_per_second: float | None

    def seconds(self, prefill: Prefill) -> float:
        """What this much work takes."""
        parts = (
            (prefill.linear_flops, self.linear_flops_per_second),
            (prefill.attention_flops_causal, self.attention_flops_per_second),
        )
        return self.seconds_fixed + sum(flops / rate for flops, rate in parts if rate)


@dataclass(frozen=True, slots=True)
class ByteRate:
    """Bytes per second while decoding, over all answers: the lowest, the median, the highest."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """How fast one engine serves one checkpoint on one machine, as measured.

    ``rates`` are those of all lengths, then those with each length left out. ``fastest`` and ``slowest`` are
    the extremes of measured by fitted seconds. ``source`` names the run.
    """

    source: str
    longest_len: int
    rates: tuple[PrefillRates, ...]
    fastest: float
    slowest: float
    decode: ByteRate | None


def calibrate(
    prompts: Sequence[TimedPrompt], *, decode_rates: Sequence[float], source: str
) -> Calibration | None:
    """The speed behind timed prompts; ``decode_rates`` in bytes per second. None below two lengths."""
    lengths = sorted({prompt.work.length for prompt in prompts})
    if len(lengths) < _MIN_LENGTHS:
        return None
    kept = [[one for one in prompts if one.work.length != length] for length in lengths]
    rates = (_rates(prompts), *(_rates(others) for others in kept))
    ratios = [prompt.seconds / rates[0].seconds(prompt.work.prefill) for prompt in prompts]
    return Calibration(
        source=source,
        longest_len=lengths[-1],
        rates=rates,
        fastest=min(1.0, *ratios),
        slowest=max(1.0, *ratios),
        decode=_byte_rate(decode_rates),
    )


def calibrated_speed(calibration: Calibration, work: PromptWork) -> Speed:
    """The speed to expect, with a range.

    The range of prefill spans the fits with each length left out, widened by the scatter of the timings;
    that of decode the lowest and highest rate seen; both at least by what two starts differ. What no timing
    shows, another load on the machine say, is not in it.
    """
    low, high = 1 - _REPEATABILITY, 1 + _REPEATABILITY
    fitted = [rates.seconds(work.prefill) for rates in calibration.rates]
    bytes_read, decode = work.decode.bytes_per_token, calibration.decode
    beyond = work.length > calibration.longest_len
    fit_limits = f", beyond its longest prompt of {format_tokens(calibration.longest_len)}" if beyond else ""
    return Speed(
        basis="calibrated",
        source=calibration.source + fit_limits,
        prefill_seconds=fitted[0],
        decode_tokens_per_second=decode.middle / bytes_read if decode else None,
        prefill_seconds_low=min(fitted) * min(calibration.fastest, low),
        prefill_seconds_high=max(fitted) * max(calibration.slowest, high),
        decode_tokens_per_second_low=min(decode.low, decode.middle * low) / bytes_read if decode else None,
        decode_tokens_per_second_high=max(decode.high, decode.middle * high) / bytes_read if decode else None,
    )


def _rates(prompts: Sequence[TimedPrompt]) -> PrefillRates:
    """Three lengths tell what is fixed from the rest, two attention from linear layers, one neither."""
    work = [
        (float(p.work.prefill.linear_flops), float(p.work.prefill.attention_flops_causal)) for p in prompts
    ]
    seconds = [prompt.seconds for prompt in prompts]
    num_lengths = len({prompt.work.length for prompt in prompts})
    fixed = 0.0
    if num_lengths > _MIN_LENGTHS:
        fixed, linear, attention = nonnegative([(1.0, *parts) for parts in work], seconds)
    elif num_lengths == _MIN_LENGTHS:
        linear, attention = nonnegative(work, seconds)
    else:
        (linear,) = nonnegative([(sum(parts),) for parts in work], seconds)
        attention = linear
    return PrefillRates(fixed, 1 / linear if linear else None, 1 / attention if attention else None)


def _byte_rate(rates: Sequence[float]) -> ByteRate | None:
    return ByteRate(min(rates), median(rates), max(rates)) if rates else None
