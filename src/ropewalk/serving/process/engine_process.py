"""One engine as a process of ours, with the supervisor between: started, watched, ended with all it began."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ropewalk.errors import EngineError, EngineFailedError
from ropewalk.limits import MAX_ENGINE_LOG_LINE_BYTES, MAX_ENGINE_LOG_LINES, MAX_ENGINE_LOG_READ_BYTES
from ropewalk.serving.process.processes import descendants, describe_exit_status, send
from ropewalk.serving.process.supervisor import KILL_SECONDS


class LogTail:
    """Complete lines of a growing file; ``lines`` keeps all that were read so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        self._rest = b""
        self._offset = 0

    def read_new(self) -> list[str]:
        """Lines that were completed since the last call; the last of them where very much was added, and of a
        very long line its beginning."""
        with self.path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            if size - self._offset > MAX_ENGINE_LOG_READ_BYTES:
                self._offset, self._rest = size - MAX_ENGINE_LOG_READ_BYTES, b""
            log.seek(self._offset)
            added = log.read(MAX_ENGINE_LOG_READ_BYTES)
        self._offset += len(added)
        *complete, rest = (self._rest + added).split(b"\n")
        self._rest = rest[:MAX_ENGINE_LOG_LINE_BYTES]
        new = [line[:MAX_ENGINE_LOG_LINE_BYTES].decode(errors="replace") for line in complete]
        self.lines = (self.lines + new)[-MAX_ENGINE_LOG_LINES:]
        return new

    def last(self, count: int) -> str:
        """The end of the log for a person to read."""
        return "\n".join(self.lines[-count:])


_WARDEN = (
    sys.executable,
    "-P",
    "-m",
    "ropewalk.serving.process.supervisor",
)  # -P: not from the working folder
_SLACK_SECONDS = 10.0  # for the supervisor itself on a busy machine


class EngineProcess:
    """An engine that was started. Its output goes to ``log_path``; ``pid`` is the engine's own.

    The log begins with ``command``, ``argv`` itself unless that stands for another.
    Raises :class:`EngineError` where the log cannot be written, :class:`EngineFailedError` where the
    program cannot be run.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        log_path: Path,
        grace_seconds: float,
        command: Sequence[str] | None = None,
    ) -> None:
        self._patience = grace_seconds + KILL_SECONDS + _SLACK_SECONDS
        _begin_log(log_path, command or argv)
        with log_path.open("ab") as log:
            self._supervisor = subprocess.Popen(
                [*_WARDEN, str(grace_seconds), *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=dict(env),
                start_new_session=True,
                text=True,
            )
        try:
            self.pid = self._started(log_path)
        except BaseException:
            self.stop()
            raise

    def ended(self) -> str | None:
        """How the engine ended, in words; None while it runs."""
        status = self._supervisor.poll()
        return None if status is None else describe_exit_status(status)

    def wait(self, seconds: float) -> bool:
        """Wait at most so long for the engine to end on its own; whether it did."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._supervisor.wait(seconds)
        return self._supervisor.poll() is not None

    @property
    def supervisor_pid(self) -> int:
        """The process that watches the engine; SIGTERM to it stops both."""
        return self._supervisor.pid

    def detach_process(self) -> None:
        """Leave the engine running when this process ends."""
        if self._supervisor.stdin:
            self._supervisor.stdin.write("\n")
            self._supervisor.stdin.flush()

    def interrupt(self) -> None:
        """Have the supervisor end it: asked first, killed after its grace; returns at once."""
        self._supervisor.terminate()

    def stop(self) -> None:
        """End the engine and every process that it began; returns when none is left."""
        for pipe in (self._supervisor.stdin, self._supervisor.stdout):
            if pipe:
                pipe.close()
        self._supervisor.terminate()
        try:
            self._supervisor.wait(self._patience)
        except subprocess.TimeoutExpired:
            send((*descendants(self._supervisor.pid), self._supervisor.pid), signal.SIGKILL)
            self._supervisor.wait()

    def _started(self, log_path: Path) -> int:
        said = self._supervisor.stdout.readline() if self._supervisor.stdout else ""
        word, _, rest = said.strip().partition(" ")
        if word != "started":
            raise EngineFailedError(
                f"the engine cannot be started: {rest or 'its supervisor ended'}",
                where={"log": str(log_path)},
            )
        return int(rest)


def _begin_log(path: Path, argv: Sequence[str]) -> None:
    """Write the command as the first line: a log that cannot be written is better known before."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as log:
            log.write(f"# {shlex.join(argv)}\n")
    except OSError as error:
        raise EngineError(
            f"the log {path} cannot be written: {error.strerror}",
            code="log_unwritable",
            where={"file": str(path)},
        ) from error
