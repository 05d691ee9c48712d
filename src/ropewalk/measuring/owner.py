"""Which process measures a run, so that one that was killed is not taken for one at work."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from ropewalk.serving.process.processes import is_alive, start_time


@dataclass(frozen=True, slots=True)
class Owner:
    """A process by its machine, its id and when it began: the id alone could be another's by now."""

    host: str
    pid: int
    start_time: str | None

    @property
    def is_here(self) -> bool:
        """Whether it is of this machine, so that it can be looked at."""
        return self.host == platform.node()

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, however that came about; False where that cannot be seen from here."""
        return self.is_here and not (is_alive(self.pid) and start_time(self.pid) == self.start_time)


def this_process() -> Owner:
    """The process that asks."""
    return Owner(platform.node(), os.getpid(), start_time(os.getpid()))
