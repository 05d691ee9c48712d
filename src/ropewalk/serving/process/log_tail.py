"""The log of a server, read while it grows."""

from __future__ import annotations

from pathlib import Path

_MOST_LINES = 200_000  # a verbose day of serving; older lines than these tell nothing about the start


class LogTail:
    """Complete lines of a growing file; ``lines`` keeps all that were read so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        self._rest = b""
        self._offset = 0

    def read_new(self) -> list[str]:
        """Lines that were completed since the last call."""
        with self.path.open("rb") as log:
            log.seek(self._offset)
            added = log.read()
        self._offset += len(added)
        *complete, self._rest = (self._rest + added).split(b"\n")
        new = [line.decode(errors="replace") for line in complete]
        self.lines = (self.lines + new)[-_MOST_LINES:]
        return new

    def last(self, count: int) -> str:
        """The end of the log for a person to read."""
        return "\n".join(self.lines[-count:])
