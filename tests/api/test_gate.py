"""Who is let in: names, tokens, rates and sizes; every refusal is a problem."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import AUTHORIZED, TOKEN, Served, made_settings, served

from ropewalk.api.gate import host_name, needs_token
from ropewalk.api.rates import BURST_SECONDS, MAX_CLIENTS, RateLimiter
from ropewalk.api.settings import ApiSettings
from ropewalk.errors import UsageError
from ropewalk.limits import MAX_BODY_BYTES

PLAN = {"checkpoint": "Qwen3-8B", "request": {"context_len": 4096, "engine": "vllm"}}


def assert_problem(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert (problem["status"], problem["code"], problem["type"]) == (
        status,
        code,
        f"urn:ropewalk:error:{code}",
    )
    assert set(problem) == {"type", "title", "status", "detail", "code", "where"}
    return problem


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost.:80", "localhost"),
        ("127.0.0.1:7673", "127.0.0.1"),
        ("[::1]:7673", "::1"),
        ("[::1]", "::1"),
        ("evil.example:80:80", "evil.example:80"),
    ],
)
def test_the_name_in_a_host_header(host: str, name: str) -> None:
    assert host_name(host) == name


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7673", "localhost.evil.example", "", "127.0.0.1.nip.io"]
)
def test_a_name_that_is_not_ours_is_refused(host: str, service: Served) -> None:
    assert_problem(service.client.get("/v1/runs", headers={"Host": host}), 421, "host_not_allowed")


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:7673", "10.0.0.7"])
def test_plain_addresses_and_localhost_are_ours(host: str, service: Served) -> None:
    assert service.client.get("/healthz", headers={"Host": host}).status_code == 200


def test_a_further_name_makes_reading_need_the_token(tmp_path: Path) -> None:
    with served(made_settings(tmp_path, names=("ropewalk.example",))) as service:
        headers = {"Host": "ropewalk.example"}
        assert_problem(service.client.get("/v1/runs", headers=headers), 401, "token_needed")
        assert service.client.get("/v1/runs", headers=headers | AUTHORIZED).status_code == 200
        assert service.client.get("/healthz", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "private", "public"),
    [
        ("GET", "/v1/runs", False, True),
        ("GET", "/openapi.json", False, True),
        ("GET", "/metrics", False, True),
        ("POST", "/v1/plan", False, True),
        ("POST", "/v1/check", False, True),
        ("POST", "/v1/servers", True, True),
        ("DELETE", "/v1/servers/1", True, True),
        ("POST", "/v1/runs", True, True),
        ("POST", "/v1/something_new", True, True),
        ("GET", "/healthz", False, False),
    ],
)
def test_what_needs_the_token(method: str, path: str, private: bool, public: bool) -> None:
    assert needs_token(method, path, private=True) is private
    assert needs_token(method, path, private=False) is public


@pytest.mark.parametrize(
    "given", ["", TOKEN, f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer é"]
)
def test_nothing_is_started_or_stopped_without_the_token(given: str, service: Served) -> None:
    headers = {b"Authorization": given.encode("latin-1")}
    for method, path in (("POST", "/v1/runs"), ("POST", "/v1/servers"), ("DELETE", "/v1/servers/1")):
        response = service.client.request(method, path, headers=headers)
        assert_problem(response, 401, "token_needed")
        assert response.headers["www-authenticate"].startswith("Bearer")


def test_every_operation_that_acts_refuses_a_stranger(service: Served) -> None:
    """By the document itself, so that a new route cannot be forgotten."""
    paths = service.get("/openapi.json")["paths"]
    acting = {
        (method, path)
        for path, methods in paths.items()
        for method, one in methods.items()
        if "security" in one
    }
    assert acting == {
        ("post", "/v1/servers"), ("delete", "/v1/servers/{server}"), ("post", "/v1/runs"),
        ("delete", "/v1/runs/{run}"), ("post", "/v1/runs/{run}/resume"), ("post", "/v1/runs/{run}/stop"),
    }  # fmt: skip
    for method, path in acting:
        response = service.client.request(method.upper(), path.format(server="1", run="1"))
        assert_problem(response, 401, "token_needed")


def test_a_body_over_the_limit(service: Served) -> None:
    large = b"[" + b" " * MAX_BODY_BYTES + b"]"
    headers = {"Content-Type": "application/json"}
    assert_problem(service.client.post("/v1/plan", content=large, headers=headers), 413, "body_too_large")
    chunks = iter([large[: len(large) // 2], large[len(large) // 2 :]])  # of no stated length
    assert_problem(service.client.post("/v1/plan", content=chunks, headers=headers), 413, "body_too_large")


def test_a_body_of_another_kind(service: Served) -> None:
    """A page of another site can send a form without asking first, but no JSON."""
    for media_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        headers = {"Content-Type": media_type}
        response = service.client.post("/v1/plan", content=b"{}", headers=headers)
        assert_problem(response, 415, "unsupported_media_type")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", ""),
        (b"{", ""),
        (b"[" * 100_000, ""),
        (b'{"checkpoint": "Qwen3-8B"}', "request"),
        (
            b'{"checkpoint": "Qwen3-8B", "request": {"context_len": "4096", "engine": "vllm"}}',
            "request.context_len",
        ),
        (
            b'{"checkpoint": "Qwen3-8B", "request": {"context_len": true, "engine": "vllm"}}',
            "request.context_len",
        ),
        (b'{"checkpoint": "Qwen3-8B", "request": {"context_len": 1, "engine": "vlm"}}', "request.engine"),
        (b'{"checkpoint": "Qwen3-8B", "request": {"context_len": 1, "engine": "vllm", "x": 1}}', "request.x"),
        (b'{"checkpoint": "\\ud800", "request": {"context_len": 1, "engine": "vllm"}}', ""),
    ],
)
def test_a_wrong_body_names_the_field(body: bytes, field: str, service: Served) -> None:
    headers = {"Content-Type": "application/json"}
    problem = assert_problem(service.client.post("/v1/plan", content=body, headers=headers), 422, "usage")
    assert problem["where"]["errors"][0]["field"] == field


def test_wrong_parameters(service: Served) -> None:
    for query in ({}, {"checkpoint": "Qwen3-8B", "chekpoint": "x"}):
        assert_problem(service.client.get("/v1/inspect", params=query), 422, "usage")
    query = {"checkpoint": "Qwen3-8B", "context_len": "128k"}
    problem = assert_problem(service.client.get("/v1/rope", params=query), 422, "usage")
    assert problem["where"]["errors"][0]["field"] == "query.context_len"


def test_no_such_path_and_no_such_method(service: Served) -> None:
    assert_problem(service.client.get("/v1/nothing"), 404, "not_found")
    response = service.client.put("/v1/plan", headers=AUTHORIZED)
    assert_problem(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "POST"


def test_every_answer_forbids_guessing_caching_and_scripts(service: Served) -> None:
    for response in (service.client.get("/docs"), service.client.get("/v1/x"), service.client.put("/v1/x")):
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["content-security-policy"].startswith("default-src 'none'")


def test_too_many_requests(tmp_path: Path) -> None:
    with served(made_settings(tmp_path, rate=0.001)) as service:  # a busy machine takes its time for both
        answers = [service.client.get("/healthz") for _ in range(2)]
        assert [json_response.status_code for json_response in answers] == [200, 429]
        assert_problem(answers[1], 429, "too_many_requests")
        assert 900 < int(answers[1].headers["retry-after"]) <= 1000


def test_rates_refill_and_are_for_each_client() -> None:
    now = 0.0
    rates = RateLimiter(10.0, clock=lambda: now)
    burst = int(10 * BURST_SECONDS)
    assert [rates.wait_seconds("a") for _ in range(burst)] == [0.0] * burst
    assert rates.wait_seconds("a") == pytest.approx(0.1)
    assert rates.wait_seconds("b") == 0.0
    now = 0.1
    assert rates.wait_seconds("a") == 0.0
    assert rates.wait_seconds("a") == pytest.approx(0.1)
    now = 1000.0
    assert [rates.wait_seconds("a") for _ in range(burst + 1)].count(0.0) == burst


def test_rates_remember_so_many_clients_and_no_more() -> None:
    rates = RateLimiter(0.5, clock=lambda: 0.0)
    for number in range(MAX_CLIENTS + 10):
        assert rates.wait_seconds(str(number)) == 0.0
    assert rates.wait_seconds(str(MAX_CLIENTS)) > 0.0  # still known
    assert rates.wait_seconds("0") == 0.0  # forgotten


def test_a_request_without_a_host_is_refused(service: Served) -> None:
    address = service.url.removeprefix("http://").split(":")
    with socket.create_connection((address[0], int(address[1]))) as connection:
        connection.sendall(b"GET /v1/runs HTTP/1.0\r\n\r\n")
        assert connection.recv(64).startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize(
    ("changes", "private"),
    [
        ({}, True),
        ({"host": "::1"}, True),
        ({"host": "localhost"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "192.168.1.2"}, False),
        ({"host": "gpu-box"}, False),
        ({"names": ("proxy.example",)}, False),
    ],
)
def test_reading_is_open_on_this_machine_alone(
    changes: dict[str, Any], private: bool, tmp_path: Path
) -> None:
    assert made_settings(tmp_path, **changes).is_private is private


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    for changes in ({"token": "short"}, {"models_dirs": (tmp_path / "nothing",)}):
        with pytest.raises(UsageError):
            made_settings(tmp_path, **changes).checked()
    assert TOKEN not in repr(ApiSettings(token=TOKEN, store=tmp_path))


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
def test_pages_of_other_sites_make_nobody_read(service: Served, headers: dict[str, str]) -> None:
    response = service.client.get("/v1/inspect", params={"checkpoint": "Qwen3-8B"}, headers=headers)
    assert (response.status_code, response.json()["code"]) == (403, "cross_site")


def test_its_own_page_may_ask(service: Served) -> None:
    headers = {"Sec-Fetch-Site": "same-origin", "Origin": service.url}
    assert service.client.get("/v1/runs", headers=headers).status_code == 200
