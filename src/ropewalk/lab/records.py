"""What ``ropewalk attend`` gives: one head's attention with what it was held against, or timed kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ropewalk.pages import Paged

Rows = tuple[tuple[float, ...], ...]
Kernel = Literal["eager", "sdpa"]


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the prompt; ``text`` is None where no tokenizer was asked."""

    id: int
    text: str | None


@dataclass(frozen=True, slots=True)
class Held:
    """The head as computed by hand against another implementation: the largest absolute difference."""

    against: str
    quantity: Literal["weights", "output"]
    largest_difference: float
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether the two results agree within the tolerance."""
        return self.largest_difference <= self.tolerance


@dataclass(frozen=True, slots=True)
class Check:
    """A property of attention tried on these numbers: ``value`` may not pass ``tolerance``."""

    name: str
    value: float
    tolerance: float
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Squares:
    """Queries down, keys across: ``scores`` are scaled and before the mask, ``mask`` is True where a query
    sees a key, ``weights`` are what softmax makes of both."""

    scores: Rows
    mask: tuple[tuple[bool, ...], ...]
    weights: Rows


@dataclass(frozen=True, slots=True)
class Attention(Paged):
    """One head of one layer on one prompt, in float32.

    ``squares`` is None for a prompt too long to be listed. ``square_bytes`` is one square of scores of all
    heads, ``weight_bytes_read`` what was read of the checkpoint. ``window`` is the width of a sliding window,
    None for full attention.
    """

    checkpoint: str
    layer: int
    head: int
    kv_head: int
    gqa_ratio: int
    head_dim: int
    window: int | None
    rotary: bool
    scale: float
    attention_factor: float
    tokens: tuple[Token, ...]
    squares: Squares | None
    held: tuple[Held, ...]
    checks: tuple[Check, ...]
    square_bytes: int
    weight_bytes_read: int
    torch_version: str
    ok: bool
    schema: str = "ropewalk.attention/1"


@dataclass(frozen=True, slots=True)
class KernelPoint:
    """One kernel at one length, causal, one sequence.

    ``square_bytes`` is the formula num_attention_heads x length^2 x bytes per number, ``flops`` that of the
    whole square, 4 x num_attention_heads x head_dim x length^2. ``peak_bytes`` is what the kernel took at
    its most beyond what was held before it; None where the system does not tell. ``seconds`` is the fastest
    of a few; None where it was not run, and ``note`` says why.
    """

    kernel: Kernel
    length: int
    square_bytes: int
    flops: int
    seconds: float | None
    peak_bytes: int | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Kernels:
    """Eager attention beside sdpa on this machine over doubling lengths, with the heads of a checkpoint."""

    checkpoint: str
    device: str
    dtype: str
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    points: tuple[KernelPoint, ...]
    torch_version: str
    schema: str = "ropewalk.kernels/1"
