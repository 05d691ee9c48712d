"""``/healthz`` and ``/metrics``: for whoever watches the service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from ropewalk import core
from ropewalk._version import __version__
from ropewalk.api.metrics import MEDIA_TYPE
from ropewalk.api.orders import MeasureOrder, ServeOrder
from ropewalk.api.state import UseState, json_response

router = APIRouter(tags=["Watch"])


@dataclass(frozen=True, slots=True)
class Health:
    """That the service answers, and what it runs."""

    status: Literal["ok"] = "ok"
    version: str = __version__


@router.get("/healthz", response_model=Health)
async def healthz() -> Response:
    """Whether the service is alive; needs no token."""
    return json_response(Health())


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(state: UseState) -> Response:
    """Counts and durations in the text format of Prometheus."""
    gauges = {
        "measurements": state.jobs.count(MeasureOrder),
        "starting_servers": state.jobs.count(ServeOrder),
        "running_servers": len(await state.in_thread(core.running_servers)),
    }
    return Response(state.metrics.text(gauges), media_type=MEDIA_TYPE)
