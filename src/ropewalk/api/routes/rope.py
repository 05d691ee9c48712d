"""``/v1/rope``: how positions turn, and what a longer context does to that."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from ropewalk import core
from ropewalk.api.state import UseState, json_response
from ropewalk.engines import EngineName
from ropewalk.planner.rope.table import RopeTable

router = APIRouter(tags=["Plan"])


@router.get("/v1/rope", response_model=RopeTable)
def rope(
    checkpoint: str,
    state: UseState,
    context_len: Annotated[int | None, Query(ge=1)] = None,
    engine: EngineName | None = None,
) -> Response:
    """Rotation rate and wavelength of each pair, unscaled and as served at `context_len` tokens.

    Without `context_len` it is the length that was trained.
    """
    return json_response(core.rope(state.sources.inspect(checkpoint), context_len=context_len, engine=engine))
