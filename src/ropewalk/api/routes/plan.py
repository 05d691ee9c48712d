"""``/v1/plan``: what it takes to serve a checkpoint at a context length."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from ropewalk import core
from ropewalk.api.bodies import PlanBody, body_of
from ropewalk.api.openapi import takes
from ropewalk.api.state import UseState, json_response
from ropewalk.planner.records import Plan

router = APIRouter(tags=["Plan"])


@router.post("/v1/plan", response_model=Plan, openapi_extra=takes(PlanBody))
def plan(body: Annotated[PlanBody, Depends(body_of(PlanBody))], state: UseState) -> Response:
    """Rope decision, memory term by term, what fits, and the exact command.

    That it does not fit, or is refused, is an answer like any other: see `fit`, `rope` and `findings`.
    """
    inspection, options = state.sources.inspect(body.checkpoint), state.sources.allowed(body.request)
    engine = options.get("engine") or core.default_engine(inspection)
    return json_response(
        core.plan(
            inspection,
            host=state.hosts.of(engine),
            read=state.sources.inspect,
            store=state.settings.store,
            **options,
        )
    )
