"""``/v1/check``: is this command line right?"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from ropewalk.api.bodies import CheckBody, body_of
from ropewalk.api.openapi import takes
from ropewalk.api.state import UseState, json_response
from ropewalk.checking import CheckResult, check_command, model_source

router = APIRouter(tags=["Plan"])


@router.post("/v1/check", response_model=CheckResult, openapi_extra=takes(CheckBody))
def check(body: Annotated[CheckBody, Depends(body_of(CheckBody))], state: UseState) -> Response:
    """Judge a `vllm serve` or `llama-server` command line: what it comes to, what is wrong, its repair.

    Nothing is started. Without `checkpoint` the command's own model is read where it lies inside the
    folders of this service.
    """
    words = (body.command,) if isinstance(body.command, str) else body.command
    if body.checkpoint is None:
        source = model_source(words)
        inspection = state.sources.inspect_if_allowed(source) if source else None
    else:
        inspection = state.sources.inspect(body.checkpoint)
    return json_response(check_command(words, inspection=inspection, engine_version=body.engine_version))
