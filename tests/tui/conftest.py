"""How the tests drive the application: with records instead of checkpoints, engines and stores."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.tui.doubles import FakeBackend
from textual.events import Mount
from textual.pilot import Pilot

from ropewalk.tui import serverrun
from ropewalk.tui.app import RopewalkApp
from ropewalk.tui.state import AppState

T = TypeVar("T")
Script = Callable[[Pilot[None]], Awaitable[T]]
Drive = Callable[..., Any]
SMALL, LARGE = (80, 24), (120, 40)
PATIENCE_SECONDS = 60.0  # a script that waits for what never comes fails then


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    """What the application can have done here; its files are in a folder of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(serverrun, "LOOK_SECONDS", 0.0)
    return FakeBackend(tmp_path)


class PlacedApp(RopewalkApp):
    """The application with its checkpoint read and one of its screens shown, without the way there."""

    def __init__(self, place: str, source: str, *, backend: FakeBackend) -> None:
        self.DEFAULT_MODE = place  # type: ignore[misc]  # of this one
        super().__init__(None, backend=backend)
        self._source = source

    def on_mount(self, event: Mount) -> None:  # type: ignore[override]  # Textual passes what is taken
        event.prevent_default()  # of the class below
        opened, devices = self.backend.open(self._source), self.backend.devices()
        self._opened(
            AppState(opened=opened, request=self.backend.first_request(opened, devices), devices=devices)
        )


@pytest.fixture
def drive(backend: FakeBackend) -> Drive:
    """Run a script of key presses against the application; whatever it returns is returned.

    ``place`` starts on that screen with ``source`` opened; without it the application starts as it does.
    """

    def run(
        script: Script[T],
        *,
        source: str | None = "models/Qwen3-8B",
        place: str | None = None,
        size: tuple[int, int] = LARGE,
    ) -> T:
        async def play() -> T:
            app = (
                PlacedApp(place, source, backend=backend)
                if place and source
                else RopewalkApp(source, backend=backend)
            )
            async with app.run_test(size=size) as pilot:
                await settle(pilot)
                return await script(pilot)

        return asyncio.run(asyncio.wait_for(play(), PATIENCE_SECONDS))

    return run


async def settle(pilot: Pilot[None]) -> None:
    """Wait until every worker is done and has drawn what it found; what is served or measured goes on."""
    while True:
        await pilot.pause()
        working = [
            worker
            for worker in pilot.app.workers
            if worker.group not in ("serve", "measure") and not worker.is_finished
        ]
        if not working:
            return
        await pilot.app.workers.wait_for_complete(working)


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys and wait for what they bring about."""
    await pilot.press(*keys)
    await settle(pilot)


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Wait for something that another thread brings about; a test that hangs here has failed."""
    for _ in range(2000):
        if condition():
            await pilot.pause()
            return
        await pilot.pause(0.005)
    raise AssertionError("it never came about")
