"""The application: routes, what stands in front of them, and what is done when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import anyio.to_thread
from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from ropewalk.api import problems
from ropewalk.api.docs_page import docs_page
from ropewalk.api.gate import SecurityMiddleware
from ropewalk.api.jobs import Jobs
from ropewalk.api.metrics import Metrics, Observe
from ropewalk.api.openapi import document
from ropewalk.api.resuming import resume_runs
from ropewalk.api.routes import check, choose, health, plan, rope, runs, servers, tensors
from ropewalk.api.routes import inspect as inspect_routes
from ropewalk.api.settings import ApiSettings
from ropewalk.api.sources import Sources
from ropewalk.api.state import ServiceState
from ropewalk.errors import RopewalkError, UsageError

MAX_THREADS = 16  # what is calculated or read at once; more only take turns at the interpreter


def make_app(settings: ApiSettings) -> FastAPI:
    """The service as an ASGI application. Raises :class:`UsageError` for settings that cannot be."""
    settings = settings.checked()
    state = ServiceState(
        settings=settings,
        sources=Sources(settings.models_dirs, hub=settings.hub),
        jobs=Jobs(settings),
        metrics=Metrics(),
    )
    app = FastAPI(
        docs_url=None,  # FastAPI's page loads scripts from elsewhere
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(known_query)],
        middleware=[
            Middleware(Observe, metrics=state.metrics),
            Middleware(SecurityMiddleware, settings=settings),
        ],
        exception_handlers={
            RopewalkError: problems.answer_ours,
            RequestValidationError: answer_query,
            HTTPException: problems.answer_http,
            ClientDisconnect: answer_nobody,
            Exception: problems.answer_bug,
        },
        lifespan=lifespan,
    )
    app.state.ropewalk = state
    for part in (inspect_routes, tensors, rope, plan, choose, check, servers, runs, health):
        app.include_router(part.router)
    _add_documents(app, private=settings.is_private)
    return app


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Serve, go on with what an earlier service was measuring, and leave no job behind."""
    state: ServiceState = app.state.ropewalk
    anyio.to_thread.current_default_thread_limiter().total_tokens = MAX_THREADS
    resuming = asyncio.create_task(resume_runs(state)) if state.settings.resume else None
    yield
    if resuming is not None:
        resuming.cancel()
    await state.jobs.close()


async def known_query(request: Request) -> None:
    """Refuse a parameter that the route does not have: a misspelled one must not be without effect."""
    known = {field.alias for field in request.scope["route"].dependant.query_params}
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        raise UsageError(
            f"there is no parameter {', '.join(unknown)} here", where={"in": "query", "names": unknown}
        )


async def answer_query(request: Request, error: Exception) -> Response:
    """Handler of what FastAPI finds wrong with the parameters in the path and the query."""
    assert isinstance(error, RequestValidationError)  # noqa: S101
    return await problems.answer_ours(request, problems.wrong_input(list(error.errors()), part="parameter"))


async def answer_nobody(request: Request, error: Exception) -> Response:
    """Handler of a client that has gone: nobody reads this."""
    return Response(status_code=400)


def _add_documents(app: FastAPI, *, private: bool) -> None:
    @cache
    def made() -> dict[str, Any]:
        """Made when it is first asked for: it takes longer than everything else in a start."""
        return document(app, private=private)

    @app.get("/openapi.json", include_in_schema=False)
    def openapi() -> Response:
        return JSONResponse(made())

    @app.get("/docs", include_in_schema=False)
    def docs(request: Request) -> Response:
        return HTMLResponse(docs_page(made(), host=request.headers["host"]))

    @app.get("/", include_in_schema=False)
    async def start() -> Response:
        return RedirectResponse("/docs")
