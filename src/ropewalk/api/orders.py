"""What a worker is told to do, as one line of JSON; the service has checked every path in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ropewalk.measuring.settings import MeasureSettings
from ropewalk.planner.records import PlanRequest


@dataclass(frozen=True, slots=True)
class MeasureOrder:
    """Measure, or go on with the run ``resume``; ``store`` is the file of runs."""

    source: str
    context_len: int
    arms: tuple[str, ...]
    settings: MeasureSettings
    store: str
    resume: str | None = None
    kind: Literal["measure"] = "measure"


@dataclass(frozen=True, slots=True)
class ServeOrder:
    """Start a server, and leave it running once it has answered."""

    source: str
    request: PlanRequest
    port: int
    threads: int | None
    verify: bool
    kind: Literal["serve"] = "serve"


Order = MeasureOrder | ServeOrder
