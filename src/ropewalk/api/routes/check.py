"""``/v1/check``: is this command line right?"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from ropewalk import core
from ropewalk.api.bodies import CheckBody, body_of
from ropewalk.api.openapi import takes
from ropewalk.api.state import UseState, json_response
from ropewalk.checking.records import CheckResult

router = APIRouter(tags=["Plan"])


@router.post("/v1/check", response_model=CheckResult, openapi_extra=takes(CheckBody))
def check(body: Annotated[CheckBody, Depends(body_of(CheckBody))], state: UseState) -> Response:
    """Judge a `vllm serve` or `llama-server` command line: what it resolves to, what is wrong, its repair.

    Nothing is started. Without `checkpoint` the command's own model is read where it lies inside the
    folders of this service.
    """
    return json_response(
        core.check(
            body.command,
            checkpoint=None if body.checkpoint is None else state.sources.inspect(body.checkpoint),
            engine_version=body.engine_version,
            gpu=body.gpu,
            memory_bytes=body.memory_bytes,
            device=body.device,
            read=state.sources.inspect_if_allowed,
        )
    )
