"""``/v1/tensors``: every tensor of a checkpoint."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ropewalk import core
from ropewalk.api.state import UseState, json_response
from ropewalk.documents import TensorList

router = APIRouter(tags=["Read a checkpoint"])


@router.get("/v1/tensors", response_model=TensorList)
def tensors(checkpoint: str, state: UseState, match: str = "*") -> Response:
    """Name, dtype, shape and bytes of each tensor whose whole name matches the glob `match`."""
    opened = state.sources.open(checkpoint)
    return json_response(core.tensors(opened, core.matching(opened, match)))
