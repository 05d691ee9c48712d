"""What is open and what is asked for: frozen records that the screens share."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.engines import EngineName
from ropewalk.errors import RopewalkError
from ropewalk.inspector.records import Checkpoint, Inspection
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.serving.host.devices import Device

FALLBACK_CONTEXT = 4096  # where nothing in the checkpoint says for how long it was trained


@dataclass(frozen=True, slots=True)
class Opened:
    """A checkpoint as read: its tensors for the table, its inspection for everything else."""

    source: str
    checkpoint: Checkpoint
    inspection: Inspection

    @property
    def name(self) -> str:
        """The last part of the path or Hub id."""
        return self.source.rstrip("/").rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Masks:
    """Live cells of one head at ``tokens``: causal, with the first ``padding`` tokens as left padding, and
    under the model's ``window`` (None where it has none)."""

    tokens: int
    causal: int
    padding: int
    padded: int
    window: int | None
    windowed: int | None


@dataclass(frozen=True, slots=True)
class AppState:
    """The state of the application: what is open, what is asked, and the last plan for it.

    ``planned`` is what the plan was made for, ``problem`` why there is none for that.
    """

    opened: Opened | None = None
    request: PlanRequest | None = None
    plan: Plan | None = None
    planned: PlanRequest | None = None
    problem: RopewalkError | None = None
    devices: tuple[Device, ...] = ()

    @property
    def is_planned(self) -> bool:
        """Whether the plan is for what is asked now."""
        return self.plan is not None and self.planned == self.request


def first_request(opened: Opened, engine: EngineName) -> PlanRequest:
    """What is planned before anybody asked: one sequence of the context that was trained for."""
    inspection = opened.inspection
    length = inspection.value("native_context") or inspection.value("max_position_embeddings")
    context_len = length if isinstance(length, int) and length > 0 else FALLBACK_CONTEXT
    return PlanRequest(context_len=context_len, engine=engine)
