"""Holding and ending a run in another thread, with a run that does nothing but tell and serve."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.tui.doubles import RUN, FakeServer, FakeServing, trial

from ropewalk.errors import EngineFailedError
from ropewalk.measuring import events
from ropewalk.planner.records import Launch
from ropewalk.serving import launcher
from ropewalk.tui.control import Control, Held

SPEC = Launch("llama-server", "1", (), {}, "", "rules")
ASKED = events.PromptSent("shipped", "niah_single", 1945, 0.1, None)
ENDED = events.TrialEnded(trial("shipped", 1945, 0.1), events.Progress(1, 2, None))


class Server(FakeServer):
    """A server that notes that it was stopped."""

    client = None

    def __init__(self, folder: Path) -> None:
        super().__init__(FakeServing(folder))
        self.stops = self.interrupts = 0

    def interrupt(self) -> None:
        self.interrupts += 1

    def stop(self) -> None:
        self.stops += 1

    def require_alive(self) -> None:
        raise AssertionError("nobody asks")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """What is started; its log has one line."""
    made = Server(tmp_path)

    def start(spec: Launch, *, log_path: Path, on_process: Any) -> Server:
        on_process(made)
        if made.interrupts:
            raise EngineFailedError("it ended while it started")
        return made

    monkeypatch.setattr(launcher, "start", start)
    return made


def test_a_pause_holds_the_thread_of_the_run_and_lets_it_go() -> None:
    told: list[object] = []
    waiting = threading.Event()

    def tell(event: object) -> None:
        told.append(event)
        if event == Held(True):
            waiting.set()

    control = Control(tell)
    control.pause()
    assert control.is_paused
    run = threading.Thread(target=control, args=(ASKED,))
    run.start()
    assert waiting.wait(20)
    assert run.is_alive()
    control.resume()
    run.join()
    assert told == [ASKED, Held(True), Held(False)]


def test_an_end_is_heard_at_the_next_event_but_not_by_those_that_frame_the_run() -> None:
    told: list[object] = []
    control = Control(told.append)
    control.end()
    control(events.RunStarted("r", ("shipped",)))
    with pytest.raises(KeyboardInterrupt):
        control(ENDED)
    control(events.RunEnded(RUN))
    assert len(told) == 3


def test_an_end_lets_a_paused_run_go() -> None:
    control = Control(lambda event: None)
    control.pause()
    seen: list[type[BaseException]] = []

    def run() -> None:
        try:
            control(ASKED)
        except KeyboardInterrupt as interrupt:
            seen.append(type(interrupt))

    thread = threading.Thread(target=run)
    thread.start()
    control.end()
    thread.join()
    assert seen == [KeyboardInterrupt]


def test_an_end_stops_the_server_in_the_middle_of_a_prompt(server: Server) -> None:
    control = Control(lambda event: None)

    def ask() -> None:
        with control.start(SPEC, Path("log")):
            control.end()
            raise ConnectionError("the server hung up")  # what the client of a dead server says

    with pytest.raises(KeyboardInterrupt):
        ask()
    assert server.interrupts == 1
    assert server.stops == 1
    control.end()
    assert server.interrupts == 1  # it is gone


def test_a_server_that_is_left_otherwise_is_only_stopped(server: Server) -> None:
    control = Control(lambda event: None)
    with control.start(SPEC, Path("log")):
        pass
    assert server.stops == 1


def test_an_end_is_heard_while_a_server_starts(server: Server) -> None:
    control = Control(lambda event: None)
    control.end()
    with pytest.raises(KeyboardInterrupt), control.start(SPEC, Path("log")):
        pass
    assert server.interrupts == 1
