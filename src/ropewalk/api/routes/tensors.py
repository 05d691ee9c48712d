"""``/v1/tensors``: every tensor of a checkpoint."""

from __future__ import annotations

from fnmatch import fnmatchcase

from fastapi import APIRouter
from starlette.responses import Response

from ropewalk.api.state import UseState, json_response
from ropewalk.documents import TensorList

router = APIRouter(tags=["Read a checkpoint"])


@router.get("/v1/tensors", response_model=TensorList)
def tensors(checkpoint: str, state: UseState, match: str = "*") -> Response:
    """Name, dtype, shape and bytes of each tensor whose whole name matches the glob `match`."""
    opened = state.sources.open(checkpoint)
    table = opened.tensors
    rows = [row for row, name in enumerate(table.names) if fnmatchcase(name, match)]
    return json_response(
        TensorList(
            source=opened.source,
            format=opened.format,
            num_tensors=len(rows),
            tensor_bytes=sum(table.nbytes[row] for row in rows),
            tensors=tuple(table.row(row) for row in rows),
            findings=opened.findings,
        )
    )
