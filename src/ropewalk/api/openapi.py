"""The OpenAPI document: FastAPI's own, with our bodies, our problems and who needs the token."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from ropewalk._version import __version__
from ropewalk.api.bodies import Body, CheckBody, ChooseBody, PlanBody, RunBody, ServerBody
from ropewalk.api.gate import needs_token
from ropewalk.api.problems import MEDIA_TYPE, Problem
from ropewalk.jsonio import schema_of

BODIES: tuple[type[Body], ...] = (PlanBody, ChooseBody, CheckBody, ServerBody, RunBody)
_SCHEMAS = "#/components/schemas/"
_ABOUT = (
    "Inspect, plan, check, serve and measure open-weights language models at long context. The records are "
    "those of the command line's --json; errors are problem details (RFC 9457) with the same code and where."
)


def takes(body: type[Body]) -> dict[str, Any]:
    """What a route says of its body; the schema itself is added by :func:`document`."""
    content = {"application/json": {"schema": {"$ref": _SCHEMAS + body.__name__}}}
    return {"requestBody": {"required": True, "content": content}}


def document(app: FastAPI, *, private: bool) -> dict[str, Any]:
    """The whole document; ``private`` says whether reading needs no token."""
    made: dict[str, Any] = get_openapi(
        title="ropewalk", version=__version__, description=_ABOUT, routes=app.routes
    )
    components = made["components"]
    schemas = components["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["Problem"] = schema_of(Problem)
    for body in BODIES:
        schemas |= _schemas(body)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            responses = operation["responses"]
            responses.pop("422", None)
            responses["default"] = _problem()
            if needs_token(method.upper(), path, private=private):
                operation["security"] = [{"token": []}]
    return made


def _schemas(body: type[Body]) -> dict[str, Any]:
    """A body and the records in it, as they are written: with fewer required fields than when read."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(body).json_schema(ref_template=_SCHEMAS + "{model}-Input")
    parts = schema.pop("$defs", {})
    return {body.__name__: schema, **{f"{name}-Input": part for name, part in parts.items()}}


def _problem() -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}}
    return {"description": "What went wrong", "content": content}
