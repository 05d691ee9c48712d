"""What a choice says: candidates in order, what a step down from the first would save, one command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ropewalk.engines import EngineName
from ropewalk.findings import Finding
from ropewalk.pages import Paged
from ropewalk.planner.cache_costs import CacheCost
from ropewalk.planner.records import LimitedBy, PlanRequest, RopeDecisionKind, Speed

StepKind = Literal["cache_type", "weights", "placement", "num_sequences", "context_len"]


@dataclass(frozen=True, slots=True)
class OptionRun:
    """What a run saw of a candidate. ``recall`` is the share of facts found at ``length`` tokens, the longest
    that was asked, None where nothing could be judged; ``finished`` says that the server answered.
    """

    run_id: str | None
    finished: bool
    length: int | None = None
    recall: float | None = None
    trials: int = 0
    prefill_seconds: float | None = None
    decode_tokens_per_second: float | None = None
    measured_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """One candidate; ``reason`` says why it is no answer, or what it costs.

    ``context_len`` is what is planned, ``max_context_len`` what memory allows, ``largest_context_len`` what
    memory, config and publisher allow, ended by ``limited_by``. ``needed_bytes`` of ``usable_bytes`` are
    needed on the tightest device, at the upper end; ``spare_bytes`` is what is left, negative for what it is
    short of. ``host_weights_bytes`` are weights that stay in host memory beside a GPU. ``speed`` is None
    without a card's figures. ``request`` is what a plan for it is asked with.
    """

    checkpoint: str
    engine: EngineName
    cache_type: str
    gpu_layers: int | None
    n_cpu_moe: int | None
    rope: RopeDecisionKind
    context_len: int
    fits: bool
    works: bool
    max_context_len: int | None
    largest_context_len: int | None
    limited_by: LimitedBy
    needed_bytes: int | None
    usable_bytes: int | None
    spare_bytes: int | None
    weights_bytes: int
    host_weights_bytes: int
    parameters: int | None
    bits_per_weight: float | None
    cache_cost: CacheCost
    speed: Speed | None
    reason: str
    request: PlanRequest
    run: OptionRun | None = None

    @property
    def is_beyond(self) -> bool:
        """Whether it works at a length that neither config nor publisher speak of."""
        return self.works and self.context_len > (self.largest_context_len or 0)


@dataclass(frozen=True, slots=True)
class Step:
    """One step down from the first candidate: ``saved_bytes`` on the tightest device, and the tokens that it
    would then reach. ``change`` names what is taken instead, ``costs`` what is given up."""

    kind: StepKind
    change: str
    saved_bytes: int
    largest_context_len: int | None
    costs: str


@dataclass(frozen=True, slots=True)
class Choice(Paged):
    """All candidates, the best first.

    ``device`` says what is chosen for; ``command`` starts the first as the engine is called, ``here`` as
    this machine does; None where none is an answer. ``steps`` are those down from the first.
    """

    context_len: int | None
    num_sequences: int
    device: str
    budget_bytes: int
    options: tuple[Option, ...]
    steps: tuple[Step, ...] = ()
    findings: tuple[Finding, ...] = ()
    command: str | None = None
    here: str | None = None
    schema: str = "ropewalk.choice/1"

    @property
    def positive(self) -> bool:
        """Whether one of them is an answer."""
        return any(option.works for option in self.options)
