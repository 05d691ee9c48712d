"""The worker itself, and with the real engine: a service that is killed, and a run that goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.api.conftest import AUTHORIZED, TOKEN

from ropewalk import jsonio
from ropewalk.api.jobs import _WORKER
from ropewalk.api.orders import MeasureOrder, ServeOrder
from ropewalk.api.worker import event_name
from ropewalk.measuring.events import GridChosen, RunStarted
from ropewalk.measuring.settings import RunRequest

SETTINGS = {"lengths": [128], "depths": [0.5], "trials": 2, "early_stop": False, "answer_tokens": 2}


def test_events_have_names_of_their_own() -> None:
    assert event_name(RunStarted("r", ())) == "run_started"
    assert event_name(GridChosen((), (), 1)) == "grid_chosen"


@pytest.mark.parametrize(
    "order",
    [
        MeasureOrder("nothing.gguf", RunRequest(2048, ("shipped",)), "runs.sqlite3"),
        ServeOrder("nothing.gguf", {"context_len": 2048, "engine": "llama-server"}, 0, None, False),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(order: Any, tmp_path: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(_WORKER, text=True, cwd=tmp_path, **pipes) as worker:  # type: ignore[call-overload]
        worker.stdin.write(jsonio.dumps(order, indent=None) + "\n")
        worker.stdin.flush()  # and stays open: its end means stop
        name, _, data = worker.stdout.read().rstrip("\n").partition("\t")
    problem = json.loads(data)
    assert (worker.returncode, name) == (1, "problem")
    assert (problem["code"], problem["status"]) == ("checkpoint_missing", 404)


@contextmanager
def service(folder: Path, models: Path) -> Iterator[tuple[subprocess.Popen[str], httpx2.Client]]:
    """``ropewalk api`` as a process of its own, which is killed at the end."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "ropewalk", "api", "--port", "0", "--models-dir", str(models)),
            *("--store", str(folder / "runs.sqlite3")),
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ROPEWALK_TOKEN": TOKEN},
    )
    assert process.stderr is not None
    with process.stderr:
        found = re.search(r"http://[\d.:]+", process.stderr.readline())
        assert found
        with httpx2.Client(base_url=found[0], timeout=120, headers=AUTHORIZED) as client:
            try:
                yield process, client
            finally:
                process.kill()
                process.wait()


def event_names(client: httpx2.Client, run_id: str) -> Iterator[str]:
    with client.stream("GET", f"/v1/runs/{run_id}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("event: "):
                yield line.removeprefix("event: ")


@pytest.mark.engine
@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the embedded engine is not installed")
def test_a_run_survives_a_service_that_is_killed(smollm2: Path, tmp_path: Path) -> None:
    body = {"checkpoint": smollm2.name, "context_len": 512, "arms": ["shipped"], "settings": SETTINGS}
    with service(tmp_path, smollm2.parent) as (process, client):
        begun = client.post("/v1/runs", json=body)
        assert begun.status_code == 202, begun.text
        run_id = begun.json()["run_id"]
        assert next(name for name in event_names(client, run_id) if name == "trial_ended")
        process.send_signal(signal.SIGKILL)
    with service(tmp_path, smollm2.parent) as (_, client):
        # It goes on by itself once the worker of the killed service has noticed.
        told = (list(event_names(client, run_id)) for _ in range(10_000))
        assert next(names for names in told if "run_started" in names)[-1] == "run_ended"
        run = client.get(f"/v1/runs/{run_id}").json()
        server = client.post("/v1/servers", json={"checkpoint": smollm2.name, "request": {
            "context_len": 512, "engine": "llama-server"}})  # fmt: skip
        assert server.status_code == 201, server.text
        assert httpx2.get(server.json()["base_url"] + "/health").json() == {"status": "ok"}
        assert client.delete(server.headers["location"]).status_code == 204
        assert client.get("/v1/servers").json()["servers"] == []
    assert run["status"] == "finished"
    assert run["arms"][0]["cells"][0]["trials"] == 2
