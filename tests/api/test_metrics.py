"""Counts per route, never per what a client made up; the format of Prometheus."""

from __future__ import annotations

import re
from pathlib import Path

from tests.api.conftest import made_settings, served

from ropewalk.api.metrics import Metrics

LINE = re.compile(r'[a-z_]+(\{([a-z]+="[^"\\\n]*",?)+\})? [-+.\de]+')


def test_answers_are_counted_by_route_method_and_status(tmp_path: Path) -> None:
    with served(made_settings(tmp_path)) as service:
        for path in ("/v1/runs/one", "/v1/runs/two", "/made/up", "/healthz"):
            service.client.get(path)
        service.client.request("BREW", "/healthz")
        response = service.client.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = response.text.splitlines()
    assert 'ropewalk_http_requests_total{route="/v1/runs/{run}",method="GET",status="404"} 2' in lines
    assert 'ropewalk_http_requests_total{route="none",method="GET",status="404"} 1' in lines
    assert 'ropewalk_http_requests_total{route="/healthz",method="GET",status="200"} 1' in lines
    assert "BREW" not in response.text
    assert "made" not in response.text
    assert "ropewalk_measurements 0" in lines
    for line in lines:
        assert line.startswith(("# HELP ", "# TYPE ")) or LINE.fullmatch(line), line


def test_a_histogram_is_cumulative() -> None:
    metrics = Metrics()
    for seconds in (0.001, 0.02, 0.3, 99.0):
        metrics.answered("/v1/plan", "POST", 200, seconds)
    text = metrics.text({})
    counts = [int(count) for count in re.findall(r"_bucket\{.*\} (\d+)", text)]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (1, 4)
    assert 'le="0.025"} 2' in text
    assert 'le="+Inf"} 4' in text
    assert 'ropewalk_http_seconds_sum{route="/v1/plan"} 99.321000' in text
    assert 'ropewalk_http_seconds_count{route="/v1/plan"} 4' in text
