"""Errors as problem details (RFC 9457): every one of ours, and those of the framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ropewalk.errors import RopewalkError, UsageError
from ropewalk.jsonio import dumps

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MEDIA_TYPE = "application/problem+json"
_MAX_SHOWN = 20  # of the faults of one body


@dataclass(frozen=True, slots=True)
class Problem:
    """RFC 9457. ``code`` and ``where`` are those of ``ropewalk.error/1``; ``type`` names the code."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    where: dict[str, Any] = field(default_factory=dict)


class RefusedError(UsageError):
    """The service does not do this for this client, or not now."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        where: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, code=code, where=where)
        self.http_status = status
        self.headers = dict(headers or {})


def problem_of(error: RopewalkError) -> Problem:
    """An error of ours as a problem."""
    return Problem(
        type=f"urn:ropewalk:error:{error.code}",
        title=error.code.replace("_", " "),
        status=error.http_status,
        detail=error.message,
        code=error.code,
        where=error.where,
    )


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """The answer that a client gets."""
    body = dumps(problem, indent=None).encode("utf-8", "backslashreplace")
    return Response(body, problem.status, headers=headers, media_type=MEDIA_TYPE)


def wrong_input(errors: list[ErrorDetails], *, part: str) -> UsageError:
    """What pydantic found wrong with a body or a query, field by field, without the values themselves."""
    faults = [{"field": ".".join(map(str, one["loc"])), "message": one["msg"]} for one in errors]
    first = faults[0]
    more = f"; {len(faults) - 1} more" if len(faults) > 1 else ""
    return UsageError(
        f"{part} {first['field']}: {first['message']}{more}",
        where={"in": part, "errors": faults[:_MAX_SHOWN]},
    )


async def answer_ours(request: Request, error: Exception) -> Response:
    """Handler of :class:`RopewalkError`."""
    assert isinstance(error, RopewalkError)  # noqa: S101
    return problem_response(problem_of(error), getattr(error, "headers", None))


async def answer_http(request: Request, error: Exception) -> Response:
    """Handler of the framework's own answers: no such path, no such method."""
    assert isinstance(error, HTTPException)  # noqa: S101
    status = HTTPStatus(error.status_code)
    code = status.name.lower()
    problem = Problem(f"urn:ropewalk:error:{code}", status.phrase, status, error.detail, code)
    return problem_response(problem, error.headers)


async def answer_bug(request: Request, error: Exception) -> Response:
    """Handler of everything else; its traceback goes to the log of the service and to nobody else."""
    what = RopewalkError(f"this is a bug in ropewalk: {type(error).__name__}", code="bug")
    return problem_response(problem_of(what))
