"""Which process measures a run, so that one that was killed is not taken for one at work."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from ropewalk.serving.process.processes import is_alive, is_of_earlier_boot, pid_space, start_time


@dataclass(frozen=True, slots=True)
class Owner:
    """A process by its machine, its id and when it began: the id alone could be another's by now.

    ``space`` is :func:`pid_space`'s, None from a version that did not note it.
    """

    host: str
    pid: int
    start_time: str | None
    space: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether it is of this machine and PID namespace, so that it can be looked at."""
        return self.host == platform.node() and self.space in (None, pid_space())

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, however that came about; False where that cannot be seen from here."""
        if self.is_here:
            return not (is_alive(self.pid) and start_time(self.pid) == self.start_time)
        return self.space is not None and is_of_earlier_boot(self.host, self.space)


def this_process() -> Owner:
    """The process that asks."""
    return Owner(platform.node(), os.getpid(), start_time(os.getpid()), pid_space())
