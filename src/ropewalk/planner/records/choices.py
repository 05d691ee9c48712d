"""What else was priced: ways out of what does not fit, other cuts, placements, and their traffic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WayOutKind = Literal[
    "cache_type", "tensor_parallel", "gpu_layers", "cpu_moe", "memory", "num_sequences", "context_len",
    "weights",
]  # fmt: skip


AdviceKind = Literal["layers", "split", "replicas", "context_parallel"]


@dataclass(frozen=True, slots=True)
class Advice:
    """Another cut of the same devices that holds more; the figures are those of a plan for it.

    ``flags`` are the options of ``ropewalk plan`` for it.
    """

    kind: AdviceKind
    flags: tuple[str, ...]
    max_context_len: int | None
    max_sequences: int | None


@dataclass(frozen=True, slots=True)
class WayOut:
    """One change by which a plan that does not fit would: ``flags`` are the options of ``ropewalk plan``.

    ``needed_bytes`` of ``usable_bytes`` are then needed on the tightest device, ``costs`` says what is given
    up. ``weights_bytes`` is what the weights of a quantised sibling may take, for which there is no option.
    """

    kind: WayOutKind
    flags: tuple[str, ...]
    needed_bytes: int
    usable_bytes: int
    weights_bytes: int | None = None
    costs: str = ""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one token's pass sends: ``tensor`` all-reduces of a stage's ranks, or ``pipeline`` borders.

    ``bytes_per_token`` are on the wire per rank, all ``operations`` of a token together. The seconds are an
    estimate from nominal speeds: low by bytes alone, high with each operation's latency; None without a
    speed. What experts exchange is left out.
    """

    kind: Literal["tensor", "pipeline"]
    operations: int
    bytes_per_token: int
    between_nodes: bool
    low_seconds: float | None = None
    high_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cut that the search priced. ``shortfall_bytes`` is what the tightest rank is short of, None where the
    cut is impossible and ``reason`` says why; ``bytes_per_token`` what it would send between devices."""

    nodes: int
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    layer_partition: tuple[int, ...]
    fits: bool
    shortfall_bytes: int | None
    bytes_per_token: int | None
    reason: str
    chosen: bool = False


PlacementStepKind = Literal["one_more", "chosen", "one_less", "least"]


@dataclass(frozen=True, slots=True)
class PlacementStep:
    """A placement that was priced: the chosen one, one block more or less on the devices, or the least there.

    ``gpu_layers`` None is all layers. ``host_weights_bytes`` are the weights that stay on the host,
    ``shortfall_bytes`` is what the tightest device is short of, negative for what it has to spare, and
    ``max_context_len`` the longest context with this placement.
    """

    kind: PlacementStepKind
    gpu_layers: int | None
    n_cpu_moe: int | None
    host_weights_bytes: int
    shortfall_bytes: int
    max_context_len: int | None


@dataclass(frozen=True, slots=True)
class Parallel:
    """What several ranks bring and cost; ``tightest`` is the device that decides."""

    tightest: str | None
    advice: tuple[Advice, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    candidates: tuple[Candidate, ...] = ()
