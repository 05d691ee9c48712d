"""``/v1/inspect``: what a checkpoint is, and what is wrong with it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ropewalk.api.state import UseState, json_response
from ropewalk.inspector.records import Inspection

router = APIRouter(tags=["Read a checkpoint"])


@router.get("/v1/inspect", response_model=Inspection)
def inspect(checkpoint: str, state: UseState) -> Response:
    """Facts with their sources, what each layer keeps, and findings, from the headers.

    `checkpoint` is a path inside the folders of this service, or a Hub id where these are allowed.
    """
    return json_response(state.sources.inspect(checkpoint))
