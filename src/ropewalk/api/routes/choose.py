"""``/v1/choose``: which model, engine, cache type and placement hold a length."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from ropewalk import core
from ropewalk.api.bodies import ChooseBody, body_of
from ropewalk.api.openapi import takes
from ropewalk.api.state import UseState, json_response
from ropewalk.errors import UsageError
from ropewalk.planner.choice import Choice

MAX_SOURCES = 20

router = APIRouter(tags=["Plan"])


@router.post("/v1/choose", response_model=Choice, openapi_extra=takes(ChooseBody))
def choose(body: Annotated[ChooseBody, Depends(body_of(ChooseBody))], state: UseState) -> Response:
    """Every candidate planned and ranked, and the command of the first.

    At most 20 checkpoints, folders or repositories may be named. That none holds the length is an answer like
    any other: see `options` and `findings`.
    """
    if len(body.checkpoints) > MAX_SOURCES:
        raise UsageError(
            f"{len(body.checkpoints)} checkpoints are more than the {MAX_SOURCES} that may be named at once",
            where={"field": "checkpoints", "count": len(body.checkpoints), "most": MAX_SOURCES},
        )
    return json_response(
        core.choose(
            [state.sources.address(name) for name in body.checkpoints],
            context_len=body.context_len,
            engines=body.engines,
            store=state.settings.store,
            hosts=state.hosts.of,
            open_local=state.sources.open,
            **state.sources.allowed(body.request),
        )
    )
