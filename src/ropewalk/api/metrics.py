"""Counts of what was asked and answered, in the text format of Prometheus (version 0.0.4)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds
# A label must not be made of what clients write.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NO_ROUTE = "none"


class Metrics:
    """Totals since the service began; written and read on its event loop alone."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, str, int]] = Counter()
        self._within: Counter[tuple[str, float]] = Counter()
        self._seconds: Counter[str] = Counter()

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """One answer began after so long."""
        self._answers[route, method if method in _METHODS else "other", status] += 1
        self._seconds[route] += seconds  # type: ignore[assignment]  # a Counter adds floats as well
        self._within[route, next((limit for limit in BUCKETS if seconds <= limit), float("inf"))] += 1

    def text(self, gauges: Mapping[str, float]) -> str:
        """Everything, with gauges that are read when asked for."""
        return "\n".join([*self._requests(), *self._durations(), *_gauges(gauges)]) + "\n"

    def _requests(self) -> Iterator[str]:
        yield from _head("ropewalk_http_requests_total", "counter", "Requests answered.")
        for (route, method, status), count in sorted(self._answers.items()):
            labels = f'route="{route}",method="{method}",status="{status}"'
            yield f"ropewalk_http_requests_total{{{labels}}} {count}"

    def _durations(self) -> Iterator[str]:
        name = "ropewalk_http_seconds"
        yield from _head(name, "histogram", "Time until an answer begins.")
        for route in sorted(self._seconds):
            count = 0
            for limit in (*BUCKETS, float("inf")):
                count += self._within[route, limit]
                label = "+Inf" if limit == float("inf") else f"{limit:g}"
                yield f'{name}_bucket{{route="{route}",le="{label}"}} {count}'
            yield f'{name}_sum{{route="{route}"}} {self._seconds[route]:.6f}'
            yield f'{name}_count{{route="{route}"}} {count}'


def _gauges(gauges: Mapping[str, float]) -> Iterator[str]:
    for name, value in gauges.items():
        yield from _head(f"ropewalk_{name}", "gauge", f"{name.replace('_', ' ').capitalize()} now.")
        yield f"ropewalk_{name} {value:g}"


def _head(name: str, kind: str, text: str) -> Iterable[str]:
    return (f"# HELP {name} {text}", f"# TYPE {name} {kind}")


class Observe:
    """ASGI middleware that counts; outside of everything else, so that refusals count too."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", _NO_ROUTE)
                seconds = time.perf_counter() - began
                self._metrics.answered(route, scope["method"], message["status"], seconds)
            await send(message)

        await self._app(scope, receive, send_counted)
