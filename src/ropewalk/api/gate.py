"""Stands in front of the service: Host, rate, token and size of the body, before anything is parsed.

A page of another site can make a browser send requests here. It cannot read the answers, cannot set the
token's header, and by DNS rebinding it can do both, but only under its own name, which the Host header tells.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ropewalk.api.problems import RefusedError, problem_of, problem_response
from ropewalk.api.rates import RateLimiter
from ropewalk.api.settings import ApiSettings
from ropewalk.limits import MAX_BODY_BYTES
from ropewalk.units import format_bytes

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_CALCULATING = frozenset({"/v1/plan", "/v1/choose", "/v1/check"})  # asked by POST, start nothing
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
)


def needs_token(method: str, path: str, *, private: bool) -> bool:
    """Whether a request must show the token: whatever starts, stops or deletes; elsewhere than on a loopback
    address reading too, except whether the service is alive."""
    is_reading = method in _READING or path in _CALCULATING
    return not is_reading if private else path != "/healthz"


class SecurityMiddleware:
    """ASGI middleware; what is refused never reaches the application."""

    def __init__(self, app: ASGIApp, settings: ApiSettings) -> None:
        self._app = app
        self._settings = settings
        self._rates = RateLimiter(settings.rate)
        named = (settings.host, *settings.names)
        self._names = frozenset({"localhost", *(name.lower() for name in named)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            self._admit(scope)
        except RefusedError as error:
            response = problem_response(problem_of(error), error.headers)
            await response(scope, receive, send_with_headers)
            return
        await self._app(scope, _bounded(receive), send_with_headers)

    def _admit(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        self._require_host(headers.getlist("host"))
        if scope["path"].startswith("/v1/"):
            _require_own_page(headers)
        wait = self._rates.wait_seconds(scope["client"][0] if scope["client"] else "")
        if wait:
            raise RefusedError(
                f"more than {self._settings.rate:g} requests per second",
                status=429,
                code="too_many_requests",
                headers={"Retry-After": str(math.ceil(wait))},
            )
        if needs_token(scope["method"], scope["path"], private=self._settings.is_private):
            self._require_token(headers.getlist("authorization"))
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > MAX_BODY_BYTES:
            raise _too_large()

    def _require_host(self, hosts: list[str]) -> None:
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            raise RefusedError(
                f"not asked under a name of this service: {', '.join(hosts) or 'no Host header'}; "
                "further ones are allowed by --allow-host",
                status=421, code="host_not_allowed", where={"field": "Host", "value": hosts},
            )  # fmt: skip

    def _is_ours(self, host: str) -> bool:
        """Any plain address is: a name is what DNS rebinding needs."""
        name = host_name(host)
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _require_token(self, given: list[str]) -> None:
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        is_right = hmac.compare_digest(token.strip().encode(), self._settings.token.encode())
        if scheme.lower() != "bearer" or not is_right:
            raise RefusedError(
                "this needs the token of the service: send it as `Authorization: Bearer TOKEN`",
                status=401, code="token_needed", where={"field": "Authorization"},
                headers={"WWW-Authenticate": 'Bearer realm="ropewalk"'},
            )  # fmt: skip


def _require_own_page(headers: Headers) -> None:
    """Refuse what a page of another site makes a browser ask: it costs time though the page reads nothing.

    Browsers say so in ``Sec-Fetch-Site`` (also for an image or a link) and ``Origin``; other clients send
    neither.
    """
    site, origin = headers.get("sec-fetch-site", "none"), headers.get("origin")
    if site in ("none", "same-origin") and (origin is None or urlsplit(origin).netloc == headers["host"]):
        return
    raise RefusedError(
        "asked by a page of another site", status=403, code="cross_site",
        where={"field": "Origin" if origin else "Sec-Fetch-Site", "value": origin or site},
    )  # fmt: skip


def host_name(host: str) -> str:
    """The name or address in a Host header, without port, brackets and a final dot."""
    name = host.partition("]")[0][1:] if host.startswith("[") else host.rpartition(":")[0] or host
    return name.lower().removesuffix(".")


def _bounded(receive: Receive) -> Receive:
    """The body as it arrives, up to the limit: a length may be absent or wrong."""
    received = 0

    async def receive_part() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MAX_BODY_BYTES:
            raise _too_large()
        return message

    return receive_part


def _too_large() -> RefusedError:
    return RefusedError(
        f"a body has at most {format_bytes(MAX_BODY_BYTES)}", status=413, code="body_too_large",
        where={"limit_bytes": MAX_BODY_BYTES},
    )  # fmt: skip
