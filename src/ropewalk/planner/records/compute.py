"""The work of a plan, and how fast it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Prefill:
    """FLOPs (2 x multiply-adds) of one prompt of ``context_len`` tokens."""

    linear_flops: int
    attention_flops: int
    attention_flops_causal: int


@dataclass(frozen=True, slots=True)
class Mask:
    """Live cells of one head's score matrix: causal, and under the model's window (None without)."""

    causal: int
    window: int | None


@dataclass(frozen=True, slots=True)
class Decode:
    """Bytes read and FLOPs done per decoded token at the full context."""

    bytes_per_token: int
    flops_per_token: int


@dataclass(frozen=True, slots=True)
class PromptWork:
    """What a prompt of ``length`` tokens takes, and the token after it."""

    length: int
    prefill: Prefill
    decode: Decode

    @property
    def attention_share(self) -> float:
        """The part of the causal prefill that is attention."""
        attention = self.prefill.attention_flops_causal
        return attention / (attention + self.prefill.linear_flops)


@dataclass(frozen=True, slots=True)
class Speed:
    """Predicted speed: ``calibrated`` by a run on this machine, an ``estimate`` from what published rows
    reach of the card's figures, both with a range, or no more than the ``bound`` of those figures.

    ``source`` names the run, or the rows, that a prediction rests on.
    """

    basis: Literal["bound", "estimate", "calibrated"]
    source: str
    prefill_seconds: float | None = None
    decode_tokens_per_second: float | None = None
    prefill_seconds_low: float | None = None
    prefill_seconds_high: float | None = None
    decode_tokens_per_second_low: float | None = None
    decode_tokens_per_second_high: float | None = None


@dataclass(frozen=True, slots=True)
class Compute:
    """Work of the plan. ``attention_share`` is of the causal prefill; ``crossover_len`` the length at
    which causal attention equals the linear layers; ``score_matrix_bytes`` what eager attention would
    hold per layer at the model's dtype."""

    prefill: Prefill
    attention_share: float
    crossover_len: int | None
    score_matrix_bytes: int
    mask: Mask
    decode: Decode
    speed: Speed | None = None
