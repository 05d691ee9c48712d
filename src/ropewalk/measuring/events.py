"""What a measurement tells while it runs; for progress bars, live grids and logs."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.measuring.loss.records import LossSpan
from ropewalk.measuring.records import ArmResult, Measurement, Trial
from ropewalk.serving.host.process_memory import MemorySample


@dataclass(frozen=True, slots=True)
class Progress:
    """Prompt tokens evaluated and to be evaluated over all arms. None while no speed is known."""

    done_tokens: int
    total_tokens: int
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The run has an id under which it can be found and resumed."""

    run_id: str
    arms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArmStarted:
    """The server of this arm is being started."""

    arm: str
    label: str
    context_len: int


@dataclass(frozen=True, slots=True)
class ArmReady:
    """The arm's server has answered its first request."""

    arm: str
    ready_seconds: float
    context_reported: int


@dataclass(frozen=True, slots=True)
class GridChosen:
    """Lengths and trials per cell are fixed from here on; there are no depths where nothing is asked."""

    lengths: tuple[int, ...]
    depths: tuple[float, ...]
    trials: int


@dataclass(frozen=True, slots=True)
class Estimated:
    """What is left to ask, once a first batch has shown the pace and before the first question."""

    progress: Progress


@dataclass(frozen=True, slots=True)
class MemoryMarked:
    """Memory was taken at a named moment."""

    arm: str
    sample: MemorySample


@dataclass(frozen=True, slots=True)
class PromptSent:
    """A prompt is being evaluated, about so long; None while no speed is known."""

    arm: str
    task: str
    length: int
    depth: float
    expected_seconds: float | None


@dataclass(frozen=True, slots=True)
class TrialEnded:
    """A question was answered, refused or lost."""

    trial: Trial
    progress: Progress


@dataclass(frozen=True, slots=True)
class TextSent:
    """A text of so many tokens is being walked through; its losses are told as they are read."""

    arm: str
    probe: str
    length: int


@dataclass(frozen=True, slots=True)
class LossesRead:
    """The losses of consecutive tokens were read."""

    span: LossSpan
    progress: Progress


@dataclass(frozen=True, slots=True)
class ArmEnded:
    """Nothing more of this arm will be asked; its cells are in the trials told before."""

    result: ArmResult


@dataclass(frozen=True, slots=True)
class CampaignStarted:
    """Tasks were handed to these machines, one per arm."""

    machines: str
    num_tasks: int


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A task of a campaign came back from ``node``, or was lost, for ``reason``, and is handed out again."""

    arm: str
    label: str
    attempt: int
    node: str | None
    reason: str | None
    num_ended: int
    num_tasks: int


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is complete, with its record as stored."""

    measurement: Measurement


Event = (
    RunStarted
    | ArmStarted
    | ArmReady
    | GridChosen
    | Estimated
    | MemoryMarked
    | PromptSent
    | TrialEnded
    | TextSent
    | LossesRead
    | ArmEnded
    | CampaignStarted
    | TaskEnded
    | RunEnded
)
