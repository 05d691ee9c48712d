"""Requests made from the OpenAPI document: none ends in a server error, every answer is as documented."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance, unsupported_method
from tests.api.conftest import AUTHORIZED, Served

EXAMPLES = 20
# What can be asked of a service in which nothing runs; `test_jobs.py` has those that start something.
READING = (
    "GET /v1/inspect", "GET /v1/tensors", "GET /v1/rope", "POST /v1/plan", "POST /v1/check",
    "GET /v1/servers/{server}", "GET /v1/runs/{run}", "GET /v1/runs/{run}/report",
    "POST /v1/runs/{run}/resume",
)  # fmt: skip


def operation(service: Served, label: str) -> Any:
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    method, path = label.split()
    return schema[path][method]


def examples(check: Callable[..., None]) -> Callable[..., None]:
    """The same few requests at every run."""
    return settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )(check)  # fmt: skip


@pytest.mark.parametrize("label", READING)
def test_requests_of_the_right_form(label: str, service: Served) -> None:
    """Of a checkpoint that is there, so that more than its name is looked at."""

    @examples
    @given(case=operation(service, label).as_strategy(generation_mode=GenerationMode.POSITIVE))
    def ask(case: Any) -> None:
        for place in (case.query, case.body):
            if isinstance(place, dict) and "checkpoint" in place:
                place["checkpoint"] = "Qwen3-8B"
        # A request of the right form may still make no sense: a context of 0 tokens.
        case.call_and_validate(
            headers=AUTHORIZED, excluded_checks=[positive_data_acceptance, unsupported_method]
        )

    ask()


@pytest.mark.parametrize("label", [label for label in READING if "{" not in label])
def test_requests_of_a_wrong_form_are_refused(label: str, service: Served) -> None:
    @examples
    @given(case=operation(service, label).as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def ask(case: Any) -> None:
        case.call_and_validate(headers=AUTHORIZED, excluded_checks=[unsupported_method])

    ask()


def test_every_reference_leads_somewhere(service: Served) -> None:
    response = service.client.get("/openapi.json")
    document = response.json()
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', response.text))
    assert names <= set(document["components"]["schemas"])
    assert "HTTPValidationError" not in document["components"]["schemas"]
    for methods in document["paths"].values():
        for one in methods.values():
            assert one["tags"]
            assert one["description"]
            assert "application/problem+json" in one["responses"]["default"]["content"]


def test_the_page_shows_every_operation_and_loads_nothing(service: Served) -> None:
    page = service.client.get("/", follow_redirects=True)
    assert page.url.path == "/docs"
    for path, methods in service.get("/openapi.json")["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in page.text
    links = re.findall(r'(?:href|src)="([^"]*)"', page.text)
    anchors = set(re.findall(r' id="([^"]+)"', page.text))
    assert {link for link in links if not link.startswith("#")} == {"openapi.json"}
    assert {link[1:] for link in links if link.startswith("#")} <= anchors
    assert "<script" not in page.text
