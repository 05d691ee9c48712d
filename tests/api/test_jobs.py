"""Jobs: bounded, followed live, and gone when their client, their order or the service is."""

from __future__ import annotations

import json
import os
import platform
import select
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import httpx2
import pytest
from tests.api.conftest import AUTHORIZED, CONFIG, Served, made_settings, served
from tests.api.fake_worker import RUN_ID
from tests.api.test_gate import assert_problem
from tests.cli import records
from tests.patching import patch_core

from ropewalk import core
from ropewalk.api import jobs
from ropewalk.api.pending import jobs_dir, mark_pending, pending_runs
from ropewalk.measuring import store as store_module
from ropewalk.measuring.store import Owner, RunStore
from ropewalk.serving.process.detached import DetachedServer

KINDS = ("short", "long", "silent", "problem", "killed", "deaf")
REQUEST = {"context_len": 2048, "engine": "llama-server"}
DETACHED = DetachedServer(
    "m", "http://127.0.0.1:8000", 41, 40, "1", "llama-server", 2048, "/tmp/log", "2026-11-30T15:49:00+00:00"
)


@dataclass(frozen=True, slots=True)
class Running(Served):
    """``workers`` is a pipe with a line for each worker that began, and an end when none is left."""

    workers: IO[str]

    def start(self, kind: str, **body: Any) -> httpx2.Response:
        """Ask for a measurement; the fake worker does what ``kind`` names."""
        data = {"checkpoint": kind, "context_len": 2048, **body}
        return self.client.post("/v1/runs", json=data, headers=AUTHORIZED)

    def post(self, path: str, **headers: str) -> httpx2.Response:
        """Ask with the token."""
        return self.client.post(path, headers=AUTHORIZED | headers)

    def wait_until_one_began(self) -> None:
        """Return when a worker has told that it lives."""
        select.select([self.workers], [], [])
        assert self.workers.readline().strip().isdecimal()

    def wait_until_gone(self) -> None:
        """Return when no worker is left."""
        self.workers.read()


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A service with the worker of these tests, and one stored run for it to tell of."""
    monkeypatch.setattr(jobs, "_WORKER", (sys.executable, str(Path(__file__).with_name("fake_worker.py"))))
    patch_core(monkeypatch, "running_servers", lambda: ())
    settings = made_settings(tmp_path)
    for kind in KINDS:
        folder = settings.models_dirs[0] / kind
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(CONFIG))
    with RunStore(settings.store) as store:
        store.create(
            replace(records.smollm2_measurement(), checkpoint=str(settings.models_dirs[0] / "short"))
        )
    alive = settings.store.parent / "alive"
    os.mkfifo(alive)
    pipe = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)  # waits for no worker
    os.set_blocking(pipe, True)
    with os.fdopen(pipe) as workers:
        with served(settings) as service:
            yield Running(service.url, service.client, service.settings, service.server, workers)
        workers.read()  # nothing outlives the service


def test_a_run_is_started_followed_and_stopped(running: Running) -> None:
    begun = running.start("long", arms=["shipped"], settings={"trials": 3, "plan": {"num_sequences": 2}})
    assert begun.status_code == 202, begun.text
    assert begun.headers["location"] == f"/v1/runs/{RUN_ID}"
    assert begun.json()["schema"] == "ropewalk.measurement/1"
    with running.client.stream("GET", f"/v1/runs/{RUN_ID}/events") as stream:
        lines = stream.iter_lines()
        assert [next(lines) for _ in range(2)] == ["id: 1", "event: run_started"]
        told = json.loads(next(lines).removeprefix("data: "))
        assert (told["settings"]["trials"], told["settings"]["plan"]) == (3, {"num_sequences": 2})
        assert [next(lines) for _ in range(3)] == ["", "id: 2", "event: trial_ended"]
        stopped = httpx2.post(f"{running.url}/v1/runs/{RUN_ID}/stop", headers=AUTHORIZED)
        assert (stopped.status_code, stopped.json()["run_id"]) == (200, RUN_ID)
        assert "event: run_ended" in list(lines)
    again = running.post(f"/v1/runs/{RUN_ID}/stop")
    assert again.status_code == 200  # it has stopped already


def test_a_stream_goes_on_where_it_broke_off(running: Running) -> None:
    running.start("long")
    with running.client.stream("GET", f"/v1/runs/{RUN_ID}/events", headers={"Last-Event-ID": "1"}) as stream:
        assert next(stream.iter_lines()) == "id: 2"


def test_no_more_jobs_than_are_allowed(running: Running) -> None:
    running.start("long")
    refused = running.start("short")
    assert_problem(refused, 429, "too_many_jobs")
    assert refused.headers["retry-after"] == "60"
    assert_problem(running.client.delete(f"/v1/runs/{RUN_ID}", headers=AUTHORIZED), 409, "run_active")
    running.post(f"/v1/runs/{RUN_ID}/stop")
    assert running.start("short").status_code == 202
    assert "event: run_ended" in running.client.get(f"/v1/runs/{RUN_ID}/events").text
    running.post(f"/v1/runs/{RUN_ID}/stop")
    assert running.client.delete(f"/v1/runs/{RUN_ID}", headers=AUTHORIZED).status_code == 204
    assert running.client.get(f"/v1/runs/{RUN_ID}").status_code == 404


def test_resuming_names_the_run(running: Running) -> None:
    response = running.post(f"/v1/runs/{RUN_ID}/resume")
    assert response.status_code == 202, response.text
    with RunStore(running.settings.store) as store:
        store.update(replace(store.frame(RUN_ID), checkpoint="/elsewhere/model.gguf"))
    refused = running.post(f"/v1/runs/{RUN_ID}/resume")
    assert_problem(refused, 403, "path_not_allowed")


def test_what_a_worker_cannot_do_is_answered_as_its_own_problem(running: Running) -> None:
    problem = assert_problem(running.start("problem"), 502, "engine_failed")
    assert (problem["detail"], problem["where"]) == ("no memory", {"file": "x"})


def test_a_worker_that_is_killed_is_told_and_its_run_interrupted(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "this_process", lambda: Owner(platform.node(), 2**30, "long ago"))
    with RunStore(running.settings.store) as store:
        store.update(replace(store.frame(RUN_ID), status="running"))
    assert running.start("killed").status_code == 202
    running.wait_until_gone()
    running.post(f"/v1/runs/{RUN_ID}/stop")
    assert running.get(f"/v1/runs/{RUN_ID}")["status"] == "interrupted"


def test_a_worker_that_does_not_stop_is_killed(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "STOP_SECONDS", 0.05)
    running.start("deaf")
    assert running.post(f"/v1/runs/{RUN_ID}/stop").status_code == 200
    running.wait_until_gone()


@pytest.mark.parametrize(
    ("path", "accept"),
    [("/v1/runs", "*/*"), ("/v1/servers", "*/*"), ("/v1/servers", "text/event-stream")],
)
def test_a_client_that_leaves_leaves_nothing_running(path: str, accept: str, running: Running) -> None:
    asked = {"context_len": 2048} if path == "/v1/runs" else {"request": REQUEST}
    body = json.dumps({"checkpoint": "silent", **asked})
    head = {"Host": "localhost", "Accept": accept, "Content-Type": "application/json", **AUTHORIZED}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
    text = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", body])
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(text.encode())
        running.wait_until_one_began()
    running.wait_until_gone()
    answers = (running.start("short").status_code for _ in range(1000))
    assert next(status for status in answers if status != 429) == 202  # its place is free again


def test_nothing_outlives_the_service(running: Running) -> None:
    """The fixture stops the service while this runs, and then waits until no worker is left."""
    assert running.start("long").status_code == 202


def test_what_was_under_way_goes_on_with_the_next_service(running: Running) -> None:
    with RunStore(running.settings.store) as store:
        checkpoint = running.settings.models_dirs[0] / "long"
        store.update(replace(store.frame(RUN_ID), checkpoint=str(checkpoint)))
    assert running.start("long").status_code == 202
    running.server.should_exit = True
    running.wait_until_gone()
    assert pending_runs(running.settings.store) == [RUN_ID]
    with served(running.settings) as again:
        told = (first_event(again) for _ in range(1000))
        assert next(data for data in told if "measurement" not in data)["resume"] == RUN_ID
        assert again.client.post(f"/v1/runs/{RUN_ID}/stop", headers=AUTHORIZED).status_code == 200
    assert pending_runs(running.settings.store) == []


def first_event(service: Served) -> dict[str, Any]:
    """The start of the run, or its end where nobody measures it."""
    with service.client.stream("GET", f"/v1/runs/{RUN_ID}/events") as stream:
        line = next(line for line in stream.iter_lines() if line.startswith("data: "))
    told: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return told


def test_what_cannot_go_on_is_told_once(running: Running, capfd: pytest.CaptureFixture[str]) -> None:
    jobs_dir(running.settings.store).mkdir(exist_ok=True)
    mark_pending(running.settings.store, RUN_ID)
    with RunStore(running.settings.store) as store:
        store.update(replace(store.frame(RUN_ID), checkpoint="/elsewhere/model.gguf"))
    with served(running.settings) as again:
        lists = ((again.get("/healthz"), pending_runs(again.settings.store)) for _ in range(1000))
        assert next(left for _, left in lists if not left) == []
    assert f"run {RUN_ID} does not go on: /elsewhere/model.gguf is not in a folder" in capfd.readouterr().err


def test_a_run_that_was_stopped_or_has_ended_is_not_gone_on_with(running: Running) -> None:
    running.start("long")
    assert pending_runs(running.settings.store) == [RUN_ID]
    running.post(f"/v1/runs/{RUN_ID}/stop")
    assert pending_runs(running.settings.store) == []


def test_streams_end_well_when_the_service_stops(running: Running) -> None:
    running.start("long")
    with running.client.stream("GET", f"/v1/runs/{RUN_ID}/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "id: 1"
        running.server.should_exit = True
        assert "event: run_ended" in list(lines)


def test_a_server_is_told_once_it_has_answered(running: Running) -> None:
    body = {"checkpoint": "short", "request": REQUEST, "port": 8123}
    response = running.client.post("/v1/servers", json=body, headers=AUTHORIZED)
    assert (response.status_code, response.headers["location"]) == (201, "/v1/servers/41")
    assert response.json() == {"name": "m", "pid": 41, "port": 8123}
    stream = running.client.post(
        "/v1/servers", json=body, headers=AUTHORIZED | {"Accept": "text/event-stream"}
    )
    assert stream.text == (
        'id: 1\nevent: step\ndata: {"message": "starting"}\n\n'
        'id: 2\nevent: ready\ndata: {"name": "m", "pid": 41, "port": 8123}\n\n'
    )


def test_servers_are_listed_found_stopped_and_bounded(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[DetachedServer] = []
    patch_core(monkeypatch, "running_servers", lambda: (DETACHED, DETACHED))
    monkeypatch.setattr("ropewalk.serving.process.detached.detached_servers", lambda: (DETACHED,))
    monkeypatch.setattr(core, "stop_server", stopped.append)
    assert running.get("/v1/servers")["servers"][0]["base_url"] == DETACHED.base_url
    assert running.get("/v1/servers/8000")["pid"] == 41
    assert_problem(running.client.get("/v1/servers/9"), 404, "server_not_found")
    body = {"checkpoint": "short", "request": REQUEST}
    refused = running.client.post("/v1/servers", json=body, headers=AUTHORIZED)
    assert_problem(refused, 429, "too_many_jobs")
    assert running.client.delete("/v1/servers/m", headers=AUTHORIZED).status_code == 204
    assert stopped == [DETACHED]


def test_settings_name_no_file_and_no_program_of_their_own(running: Running) -> None:
    wrong: list[tuple[dict[str, Any], int, str]] = [
        ({"haystack": "/etc/passwd"}, 403, "path_not_allowed"),
        ({"haystack": "nothing.txt"}, 404, "checkpoint_missing"),
        ({"plan": {"context_len": 1}}, 422, "usage"),
        ({"plan": {"draft": "/etc/passwd"}}, 403, "path_not_allowed"),
        ({"plan": {"projector": "nothing.gguf"}}, 404, "checkpoint_missing"),
        ({"plan": {"engine_path": "/bin/sh"}}, 422, "usage"),
        ({"plan": {"num_sequences": "two"}}, 422, "usage"),
        ({"store": "x"}, 422, "usage"),
    ]
    for settings, status, code in wrong:
        assert_problem(running.start("short", settings=settings), status, code)
