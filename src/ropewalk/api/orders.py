"""What a worker is told to do, as one line of JSON; the service has checked every path in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ropewalk.measuring.settings import RunRequest
from ropewalk.planner.options import PlanOptions


@dataclass(frozen=True, slots=True)
class MeasureOrder:
    """Measure what is requested; ``store`` is the file of runs."""

    source: str
    request: RunRequest
    store: str
    kind: Literal["measure"] = "measure"


@dataclass(frozen=True, slots=True)
class ServeOrder:
    """Start a server, and leave it running once it has answered."""

    source: str
    request: PlanOptions
    port: int
    threads: int | None
    verify: bool
    kind: Literal["serve"] = "serve"


Order = MeasureOrder | ServeOrder
