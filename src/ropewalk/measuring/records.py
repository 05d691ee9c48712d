"""What measuring hands on: trials, cells, arms, and the ``Measurement`` that holds them all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ropewalk.engines import EngineBuild
from ropewalk.findings import Finding
from ropewalk.measuring.loss.records import FactorCost, LossCurve, PairedLoss, ProbeText
from ropewalk.pages import Paged
from ropewalk.planner.records import Launch, PromptWork, RopeDecision
from ropewalk.serving.host.devices import Hardware
from ropewalk.serving.host.process_memory import MemorySample

Outcome = Literal[
    "hit",  # the right value, and no other candidate
    "miss",  # an answer without any candidate value
    "wrong_needle",  # the value of another needle, or several values
    "declined",  # the model says that it will not or cannot answer
    "refused",  # the server refused the prompt (longer than the context it serves)
    "truncated",  # the answer was cut by its budget or by the end of the context
    "lost_to_reasoning",  # the budget went into thinking; no answer was begun
    "invalid",  # the server evaluated another number of tokens than was sent
    "error",  # no answer: transport or server error
]
JUDGED: frozenset[Outcome] = frozenset(
    {"hit", "miss", "wrong_needle", "declined"}
)  # the rest says nothing of recall
RunStatus = Literal["running", "finished", "interrupted", "failed"]


@dataclass(frozen=True, slots=True)
class MemoryTermSeen:
    """A memory term three times: planned, printed by the engine, measured from outside.

    ``how`` says by what means the measured figure was had; None where it cannot be told apart.
    """

    name: str
    planned_bytes: int | None
    printed_bytes: int | None
    measured_bytes: int | None
    how: str | None


@dataclass(frozen=True, slots=True)
class Trial:
    """One question put to the server, and what came of it.

    ``length`` is the prompt in tokens as planned, ``reported_tokens`` as the server counted it;
    ``depth`` the needle's place as a share of the prompt in tokens, 0 at the start; ``needle_at`` the
    token where it really begins. ``found`` counts the expected values in the answer, whatever else
    stood there. ``first_logprob`` is that of the answer's first token: two servers that compute alike
    agree in it to the last digit.
    """

    key: str
    arm: str
    task: str
    length: int
    depth: float
    seed: int
    prompt_sha256: str
    expected: tuple[str, ...]
    answer: str
    outcome: Outcome
    reported_tokens: int | None
    cached_tokens: int | None
    prefill_seconds: float | None
    detail: str | None = None
    decode_tokens_per_second: float | None = None
    needle_at: int | None = None
    found: int | None = None
    first_logprob: float | None = None


@dataclass(frozen=True, slots=True)
class RecallCell:
    """Trials of one task at one length and depth; the interval is Wilson's, 95 %, over judged trials.

    ``score`` is the mean share of expected values found, RULER's ``string_match_all``: wrong values
    beside the right one do not lower it, so it is never below the share of hits.
    """

    task: str
    length: int
    depth: float
    trials: int
    hits: int
    outcomes: dict[str, int]
    low: float | None
    high: float | None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class SpeedPoint:
    """Speed at one prompt length, from the server's own timings with nothing cached."""

    length: int
    prefill_seconds: float
    prefill_tokens_per_second: float
    decode_tokens_per_second: float | None


@dataclass(frozen=True, slots=True)
class SpeedFit:
    """Seconds of prefill of n tokens: ``seconds_fixed``, ``seconds_per_token`` x n and
    ``seconds_per_token_squared`` x n^2.

    ``attention_share`` is the square's part of what grows with the prompt at ``longest_len``, the longest
    that was timed; ``planned_attention_share`` attention's part of the FLOPs there. The two differ where
    attention runs at another rate than the linear layers; a windowed layer's attention counts as linear
    in the first beyond its window.
    """

    seconds_fixed: float
    seconds_per_token: float
    seconds_per_token_squared: float
    longest_len: int
    attention_share: float | None
    planned_attention_share: float | None

    def seconds(self, length: float) -> float:
        """Predicted seconds of a prompt of this length."""
        return self.seconds_fixed + length * (
            self.seconds_per_token + length * self.seconds_per_token_squared
        )


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """The node of a cluster that measured an arm.

    ``address`` is its name in the cluster, None where that is ``host``; ``engine`` the one found there,
    None where nothing got so far; ``attempt`` counts from 1, beyond that where a worker or node was lost;
    ``task`` is the key of the work; ``whole`` says that the node did nothing else for this run.
    """

    host: str
    address: str | None
    machine: Hardware
    python: str
    ropewalk: str
    attempt: int
    task: str
    whole: bool
    engine: EngineBuild | None = None

    @property
    def name(self) -> str:
        """As a person finds it again."""
        return self.host if self.address in (None, self.host) else f"{self.host} ({self.address})"


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One server configuration and all that was seen of it.

    ``effective_context_absolute`` is the longest length run whose recall passes the bar,
    ``effective_context_relative`` the longest at 85 % of the model's own base; None where no length
    that was run supports the claim. ``work`` is what the plan says of each prompt length that is asked;
    ``node`` where a campaign measured it, None for the machine of the run.
    """

    arm: str
    label: str
    launch: Launch | None
    rope: RopeDecision | None
    context_planned: int
    context_reported: int | None
    ready_seconds: float | None
    memory: tuple[MemoryTermSeen, ...] = ()
    samples: tuple[MemorySample, ...] = ()
    cells: tuple[RecallCell, ...] = ()
    effective_context_absolute: int | None = None
    effective_context_relative: int | None = None
    speed: tuple[SpeedPoint, ...] = ()
    findings: tuple[Finding, ...] = ()
    work: tuple[PromptWork, ...] = ()
    speed_fit: SpeedFit | None = None
    node: NodeSeen | None = None
    losses: tuple[LossCurve, ...] = ()


@dataclass(frozen=True, slots=True)
class PairedRecall:
    """Two arms on identical prompts of one length: discordant pairs and McNemar's exact p.

    ``visible_drop`` is the smallest drop from 95 % that so many pairs show with a power of 80 %; None where
    they show none.
    """

    length: int
    arm: str
    other: str
    pairs: int
    only_arm: int
    only_other: int
    p_value: float
    visible_drop: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the arms say together; ``recommended`` is an arm, or None where the data cannot tell.

    ``loss_verdict`` is what the losses say, None where none were read; ``factors`` are the scaled arms, the
    one first that loses least beyond the trained length.
    """

    target_len: int
    recommended: str | None
    verdict: str
    pairs: tuple[PairedRecall, ...] = ()
    losses: tuple[PairedLoss, ...] = ()
    factors: tuple[FactorCost, ...] = ()
    loss_verdict: str | None = None


@dataclass(frozen=True, slots=True)
class Measurement(Paged):
    """A run: what ``measure`` prints, stores and reports.

    ``created`` and ``finished`` are UTC in ISO 8601. ``settings`` is what the grid was made from, so
    that the run can be continued or repeated; ``texts`` are those that losses were read of, and
    ``trained_len`` the context that the model was trained for; None where that is unknown.
    """

    run_id: str
    status: RunStatus
    created: str
    finished: str | None
    checkpoint: str
    checkpoint_fingerprint: str
    machine: Hardware
    target_len: int
    settings: dict[str, Any]
    arms: tuple[ArmResult, ...]
    comparison: Comparison | None
    findings: tuple[Finding, ...] = field(default_factory=tuple)
    texts: tuple[ProbeText, ...] = ()
    trained_len: int | None = None
    schema: str = "ropewalk.measurement/1"
