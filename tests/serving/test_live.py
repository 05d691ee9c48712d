"""Looking at a running server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from ropewalk.errors import EngineError, EngineFailedError, EngineTimeoutError
from ropewalk.serving.host.process_memory import Resident
from ropewalk.serving.launcher import RunningServer
from ropewalk.serving.live import Watch
from ropewalk.serving.process.group import RunningNode
from ropewalk.serving.server_report import ServerLoad, read_metrics

IDLE = ServerLoad(0, 0, 0.0, 0, prompt_tokens=100, generated_tokens=10)


@dataclass
class Server:
    """Its loads one after the other; None is no answer."""

    loads: list[ServerLoad | None]
    pid: int = 1
    alive: bool = True
    nodes: tuple[RunningNode, ...] = ()

    @property
    def client(self) -> Server:
        return self

    def load(self) -> ServerLoad:
        load = self.loads.pop(0)
        if load is None:
            raise EngineTimeoutError("/metrics did not answer")
        return load

    def require_alive(self) -> None:
        if not self.alive:
            raise EngineFailedError("it ended")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look every two seconds, at a process of 3 GiB."""
    seconds = iter(range(0, 1000, 2))
    monkeypatch.setattr("ropewalk.serving.live.time.monotonic", lambda: next(seconds))
    monkeypatch.setattr("ropewalk.serving.live.resident", lambda pid: Resident(3 << 30, 0))


def watch(*loads: ServerLoad | None) -> Watch:
    return Watch(cast(RunningServer, Server(list(loads))))


def test_rates_are_over_the_time_between_two_looks() -> None:
    busy = ServerLoad(1, 2, 0.25, None, prompt_tokens=1100, generated_tokens=40)
    server = watch(IDLE, busy, busy)
    first, second, third = server.look(), server.look(), server.look()
    assert (first.state, first.prompt_rate, first.uptime_seconds) == ("idle", None, 2)
    assert first.memory == Resident(3 << 30, 0)
    assert (second.state, second.prompt_rate, second.generated_rate) == ("busy", 500.0, 15.0)
    assert (third.prompt_rate, third.generated_rate) == (500.0, 15.0)  # the last that was seen


def test_the_engines_own_clock_goes_before_ours() -> None:
    before = ServerLoad(0, 0, 0.0, 0, 100, 10, prompt_seconds=1.0, generated_seconds=1.0)
    now = ServerLoad(0, 0, 0.0, 0, 1100, 30, prompt_seconds=11.0, generated_seconds=1.5)
    server = watch(before, now)
    server.look()
    moment = server.look()
    assert (moment.prompt_rate, moment.generated_rate) == (100.0, 40.0)


def test_a_server_that_is_silent_is_told_from_one_that_ended() -> None:
    stand_in = Server([IDLE, None])
    server = Watch(cast(RunningServer, stand_in))
    server.look()
    moment = server.look()
    assert (moment.state, moment.load) == ("silent", IDLE)
    stand_in.alive = False
    with pytest.raises(EngineFailedError):
        server.look()


def test_an_engine_that_does_not_say_is_not_called_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def untold(server: Server) -> ServerLoad:
        raise EngineError("it does not say what it is doing", code="not_reported")

    monkeypatch.setattr(Server, "load", untold)
    moment = watch().look()
    assert (moment.state, moment.load, moment.memory) == ("unsupported", None, Resident(3 << 30, 0))


def test_metrics_are_summed_over_their_labels() -> None:
    text = (
        "# TYPE vllm:num_requests_running gauge\n"
        'vllm:num_requests_running{engine="0",model_name="a b"} 2.0\n'
        'vllm:num_requests_running{engine="1",model_name="a b"} 1.0\n'
        "llamacpp:tokens_predicted_seconds_total 1e-06\n"
        "python_gc NaN\n"
    )
    assert read_metrics(text) == {
        "vllm:num_requests_running": 3.0,
        "llamacpp:tokens_predicted_seconds_total": 1e-06,
    }
