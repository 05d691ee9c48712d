"""What reading losses hands on: spans as they are stored, and the curves and pairs that are made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Probe = Literal["loss", "copy", "recall"]
PROBES: tuple[Probe, ...] = get_args(Probe)
Read = Literal["loss", "copy"]  # the probes that read the probability of a text that is given


@dataclass(frozen=True, slots=True)
class ProbeText:
    """A text that losses are read of: its file or the kind of haystack, its fingerprint, its token count."""

    name: str
    sha256: str
    tokens: int


@dataclass(frozen=True, slots=True)
class LossSpan:
    """The losses of consecutive tokens, in nats: minus the logarithm of each one's probability after all
    that stands before it.

    ``tokens`` are their ids, ``losses[i]`` belongs to the token at position ``start + i``. ``bounds`` are the
    ``i`` of which only a lower bound is known, since the engine's list of probable tokens ended before the
    true one. ``text`` is the fingerprint of the text; ``distance`` how many tokens back the passage stands
    that is repeated, None for the text itself. ``evaluated`` tokens before ``start`` took ``seconds``; None
    where the server does not tell.
    """

    key: str
    arm: str
    probe: Read
    text: str
    start: int
    tokens: tuple[int, ...]
    losses: tuple[float, ...]
    bounds: tuple[int, ...] = ()
    distance: int | None = None
    evaluated: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class LossBin:
    """Mean loss of the tokens from position (or distance) ``start`` to before ``end``, with the 95 % block
    bootstrap interval, None for fewer than six blocks. ``bounds`` of the ``tokens`` are lower bounds, and
    with any of them so is the mean."""

    start: int
    end: int
    tokens: int
    mean: float
    low: float | None
    high: float | None
    bounds: int = 0


@dataclass(frozen=True, slots=True)
class LossCurve:
    """An arm's losses over position, or over the distance of a copied passage.

    ``base`` is the mean within the trained length after the first bin; ``leaves_at`` the position from which
    on every bin lies above it, by its interval and by 0.1 nats; ``rise`` by how much in all from there on,
    with its interval. None where the curve has no base, or does not leave it.
    """

    probe: Read
    bins: tuple[LossBin, ...]
    base: LossBin | None = None
    leaves_at: int | None = None
    rise: LossBin | None = None


@dataclass(frozen=True, slots=True)
class PairedLoss:
    """Two arms on the same tokens at the same positions: how much more ``other`` loses per token.

    ``bins`` are differences; ``whole`` pools all of them, ``inside`` those within the trained length and
    ``beyond`` those after it (both None for repeated passages, which stand at the end). ``parts_at`` is the
    position, or distance, from which on every bin excludes zero; ``is_equal`` says that all pairs inside
    agree to the last digit.
    """

    probe: Read
    arm: str
    other: str
    pairs: int
    bins: tuple[LossBin, ...]
    whole: LossBin
    inside: LossBin | None = None
    beyond: LossBin | None = None
    parts_at: int | None = None
    is_equal: bool = False


@dataclass(frozen=True, slots=True)
class FactorCost:
    """What a scaling costs: ``beyond`` the trained length more than the best of the factors (None for that
    one itself), ``inside`` it more than the model without scaling; None where no such pair was read."""

    arm: str
    beyond: LossBin | None
    inside: LossBin | None
