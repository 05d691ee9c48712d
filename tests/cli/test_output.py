"""What is said while a command works."""

from __future__ import annotations

import contextlib
import sys
import threading

import pytest

from ropewalk.cli import output


class Screen:
    """Stands for a console and its status line; notes what happens."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.is_shown = threading.Event()

    def status(self, wait: output.Wait) -> Screen:
        self.told.append(str(wait))
        return self

    def start(self) -> None:
        self.told.append("start")
        self.is_shown.set()

    def stop(self) -> None:
        self.told.append("stop")


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    made = Screen()
    monkeypatch.setattr(output, "console", lambda *, stderr: made)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    return made


def test_what_takes_long_is_told_until_it_is_done(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_SILENT_SECONDS", 0)
    with contextlib.suppress(KeyError), output.waiting("reading \x1b[2J"):
        assert screen.is_shown.wait(60)
        raise KeyError
    assert screen.told == ["reading \N{REPLACEMENT CHARACTER}[2J", "start", "stop"]


def test_nothing_is_told_of_what_is_quick_or_on_no_terminal(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_SILENT_SECONDS", 60)
    with output.waiting("reading"):
        pass
    monkeypatch.setattr(output, "_SILENT_SECONDS", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    with output.waiting("reading"):
        pass
    assert screen.told == []


def test_a_wait_says_what_for_and_how_long_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 30.0, 130.0])
    monkeypatch.setattr("ropewalk.cli.output.time.monotonic", lambda: next(clock))
    wait = output.Wait("waiting for the server to answer")
    assert str(wait) == "waiting for the server to answer"
    wait.expect("filling 131,068 tokens", 120.0)
    assert str(wait) == "filling 131,068 tokens · 25% · about 1 min 30 s left"
    assert str(wait) == "filling 131,068 tokens · 2 min 10 s so far, longer than expected"
