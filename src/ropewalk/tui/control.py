"""Holds, continues and ends a measurement that runs in another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ropewalk import core
from ropewalk.measuring import events
from ropewalk.serving.records import GRACE_SECONDS

STOP_SECONDS = GRACE_SECONDS + 20.0  # a machine may be too busy to kill what has not ended

if TYPE_CHECKING:
    from ropewalk.planner.records import Launch
    from ropewalk.serving.launcher import RunningServer

# Between these a run can be ended and is stored as interrupted; the others frame it.
_INSIDE = (
    events.ArmStarted,
    events.ArmReady,
    events.MemoryMarked,
    events.PromptSent,
    events.TrialEnded,
    events.TextSent,
    events.LossesRead,
    events.ArmEnded,
)


class Interruptible(Protocol):
    """An engine's process, or the server that it has become."""

    def interrupt(self) -> None:
        """Have it end; returns at once."""


@dataclass(frozen=True, slots=True)
class Held:
    """The run waits, or goes on again."""

    waiting: bool


class Control:
    """What a measurement calls with its events, and starts its servers by.

    A pause takes hold at the next event: the server keeps its memory, and nothing is asked. An end stops
    the server even in the middle of a prompt, within what its supervisor allows; the trial that was under way
    is not counted.
    """

    def __init__(self, tell: Callable[[events.Event | Held], None]) -> None:
        self._tell = tell
        self._go = threading.Event()
        self._go.set()
        self._gone = threading.Event()
        self._ended = False
        self._engine: Interruptible | None = None

    @contextmanager
    def run(self) -> Iterator[None]:
        """Around the whole run: :meth:`stop` waits for its end."""
        try:
            yield
        finally:
            self._gone.set()

    @property
    def is_ended(self) -> bool:
        """Whether the run was told to end."""
        return self._ended

    @property
    def is_paused(self) -> bool:
        """Whether the run was told to wait."""
        return not self._go.is_set()

    def pause(self) -> None:
        """Hold the run at its next event."""
        self._go.clear()

    def resume(self) -> None:
        """Let a paused run continue."""
        self._go.set()

    def stop(self) -> None:
        """End the run, and wait until it is over."""
        self.end()
        self._gone.wait(STOP_SECONDS)

    def end(self) -> None:
        """End the run; returns at once."""
        self._ended = True
        self._go.set()
        engine = self._engine
        if engine is not None:
            engine.interrupt()

    def __call__(self, event: events.Event) -> None:
        """Tell an event, in the thread of the run; wait or end there if that was asked for."""
        self._tell(event)
        if not isinstance(event, _INSIDE):
            return
        if not self._go.is_set():
            self._tell(Held(True))
            self._go.wait()
            self._tell(Held(False))
        self._require_going()

    @contextmanager
    def start(self, launch: Launch, log_path: Path) -> Iterator[RunningServer]:
        """Start a server that :meth:`end` can reach, even before it is ready; leaving it looks whether the
        run was told to end."""
        try:
            server = core.launch(launch, log_path=log_path, on_process=self._take)
            self._take(server)
            try:
                yield server
            finally:
                server.stop()
        finally:
            self._engine = None
            self._require_going()

    def _take(self, engine: Interruptible) -> None:
        """What :meth:`end` interrupts from here on; at once where it was called before."""
        self._engine = engine
        if self._ended:
            engine.interrupt()

    def _require_going(self) -> None:
        if self._ended:
            raise KeyboardInterrupt  # what ends a run from the keyboard, and is stored as interrupted
