"""What clients send: the records of the other parts, and what is to be done with them.

The records are validated by themselves; nothing is listed a second time here. Names that are no field, and
values that are of another type, are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from starlette.requests import Request

from ropewalk import jsonio
from ropewalk.api.problems import RefusedError, wrong_input
from ropewalk.engines import EngineName
from ropewalk.measuring.settings import MeasureSettings
from ropewalk.planner.options import PlanOptions, ServerOptions

BODY_SECONDS = 10.0

T = TypeVar("T", bound="Body")


class Body:
    """Pydantic hands this on to the records inside."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}


@dataclass(frozen=True, slots=True)
class PlanBody(Body):
    """What to plan; a plan has the same two under the same names. Without an engine it is the one for the
    checkpoint's format."""

    checkpoint: str
    request: PlanOptions


@dataclass(frozen=True, slots=True)
class ChooseBody(Body):
    """Among what to choose: checkpoints, and folders or repositories that stand for all models in them.

    ``context_len`` 0 asks for the longest of each, ``request`` has what all candidates are asked beside it.
    Without ``engines`` they are the first that serves each format, without ``gpu`` and ``memory_bytes`` it is
    chosen for the service's machine.
    """

    checkpoints: tuple[str, ...]
    context_len: int
    engines: tuple[EngineName, ...] = ()
    request: ServerOptions = field(default_factory=ServerOptions)


@dataclass(frozen=True, slots=True)
class CheckBody(Body):
    """A command line as words, or as one string; ``checkpoint`` where it names none that is here.

    ``gpu`` is a card's name, ``memory_bytes`` the memory of each device, ``device`` its kind: without a
    memory whether the server fits is not judged.
    """

    command: str | tuple[str, ...]
    checkpoint: str | None = None
    engine_version: str | None = None
    gpu: str | None = None
    memory_bytes: int | None = None
    device: str = "auto"


@dataclass(frozen=True, slots=True)
class ServerBody(Body):
    """What to serve, on the loopback address of the service's machine; port 0 takes a free one.

    ``verify`` fills the context once and compares with an unscaled baseline before the answer.
    """

    checkpoint: str
    request: PlanOptions
    port: int = 0
    threads: int | None = None
    verify: bool = False


@dataclass(frozen=True, slots=True)
class RunBody(Body):
    """What to measure, for ``context_len`` tokens; without an engine as a plan is made."""

    checkpoint: str
    context_len: int
    arms: tuple[str, ...] = ("shipped", "auto")
    engine: EngineName | None = None
    settings: MeasureSettings = field(default_factory=MeasureSettings)


def body_of(record: type[T]) -> Callable[[Request], Awaitable[T]]:
    """A dependency that reads this body."""

    async def read(request: Request) -> T:
        from pydantic import ValidationError

        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            raise RefusedError(
                f"a body is application/json, not {media_type or 'unnamed'}",
                status=415,
                code="unsupported_media_type",
                where={"field": "Content-Type", "value": media_type},
            )
        raw = await _whole(request)
        try:
            return jsonio.loads(record, raw)
        except ValidationError as error:
            raise wrong_input(error.errors(include_input=False, include_url=False), part="body") from None

    return read


async def _whole(request: Request) -> bytes:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.body()
    except TimeoutError:
        raise RefusedError(
            f"the body did not arrive within {BODY_SECONDS:g} seconds", status=408, code="body_too_slow"
        ) from None
