"""Tasks on this machine, one after the other, each in a process of its own."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ropewalk.measuring.cluster.backend import Ended
from ropewalk.measuring.cluster.settings import Needs
from ropewalk.serving.process.engine_process import EngineProcess

_NODE = (sys.executable, "-P", "-m", "ropewalk.measuring.cluster.node")
_GRACE_SECONDS = 15.0  # a server gets its own time to stop within this
_WAIT_SECONDS = 0.5  # between looks; an interrupt ends the wait at once
_LOG_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class _Running:
    key: str
    process: EngineProcess
    record: Path
    log: Path


class LocalBackend:
    """One task at a time, so that each has the machine to itself.

    A supervisor stands between, as it does before an engine: the task ends when this process does.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ropewalk-campaign-")
        self._waiting: dict[str, str] = {}
        self._running: _Running | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running:
            self._running.process.stop()
        self._folder.cleanup()

    def describe(self) -> str:
        """The machines there are, in words."""
        return "this machine, one task at a time"

    def submit(self, tasks: Mapping[str, str], needs: Needs) -> None:
        """Queue tasks; they take what is here."""
        self._waiting |= tasks

    def next(self) -> Ended:
        """Start the next task where none runs, and wait for its end."""
        running = self._running = self._running or self._start()
        while not running.process.wait(_WAIT_SECONDS):
            pass
        running.process.stop()
        self._running = None
        if running.record.is_file():
            return Ended(running.key, record=running.record.read_text("utf-8"))
        ended, said = running.process.ended(), running.log.read_text("utf-8", errors="replace")
        if ended == "with status 1":  # Python's own, for an exception that nobody caught
            return Ended(running.key, failed=said[-_LOG_CHARACTERS:])
        return Ended(running.key, lost=f"its process ended {ended}")

    @property
    def pid(self) -> int | None:
        """The process of the task that runs."""
        return self._running.process.pid if self._running else None

    def _start(self) -> _Running:
        key, text = next(iter(self._waiting.items()))
        del self._waiting[key]
        task, record, log = (Path(self._folder.name) / f"{key}.{kind}" for kind in ("task", "record", "log"))
        record.unlink(missing_ok=True)
        task.write_text(text, "utf-8")
        process = EngineProcess(
            (*_NODE, str(task), str(record)),
            env=os.environ,
            log_path=log,
            grace_seconds=_GRACE_SECONDS,
        )
        return _Running(key, process, record, log)
