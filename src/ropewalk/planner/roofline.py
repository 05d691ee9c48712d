"""The speed of one request before it was measured: a roofline, and how much of it engines were seen to reach.

Decoding reads every weight and the cache once a token, prefill is bound by arithmetic. An engine reaches a
share of either, and each block costs it a fixed time on top (some 25 kernels, each launched and waited for).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from ropewalk.planner.machine import Machine
from ropewalk.planner.records import Prefill, PromptWork, Speed

Range = tuple[float, float]  # the worst and the best that was seen


@dataclass(frozen=True, slots=True)
class Attained:
    """What an engine reaches on one kind of memory, each from the worst to the best row that was published.

    ``bandwidth`` and ``peak`` are shares of the card's nominal figures, ``block_seconds`` what a block costs
    beside its bytes for each token. ``source`` names the rows.
    """

    bandwidth: Range
    block_seconds: Range
    peak: Range
    source: str


def roofline_speed(
    work: PromptWork, machine: Machine, attained: Attained, *, num_layers: int
) -> Speed | None:
    """The speed to expect on one device, with the range that published rows lie in; None where the card's
    figures are not known.

    The middle is the geometric mean of the ends: as many times below the one as above the other.
    """
    if machine.bandwidth is None or machine.peak_flops is None:
        return None
    bandwidth, peak = machine.bandwidth, machine.peak_flops
    slowest, fastest = (
        work.decode.bytes_per_token / (bandwidth * share) + num_layers * seconds
        for share, seconds in zip(attained.bandwidth, attained.block_seconds, strict=True)
    )
    longest, shortest = (_flops(work.prefill) / (peak * share) for share in attained.peak)
    return Speed(
        basis="estimate",
        source=attained.source,
        prefill_seconds=sqrt(shortest * longest),
        decode_tokens_per_second=1 / sqrt(fastest * slowest),
        prefill_seconds_low=shortest,
        prefill_seconds_high=longest,
        decode_tokens_per_second_low=1 / slowest,
        decode_tokens_per_second_high=1 / fastest,
    )


def _flops(prefill: Prefill) -> int:
    return prefill.linear_flops + prefill.attention_flops_causal
