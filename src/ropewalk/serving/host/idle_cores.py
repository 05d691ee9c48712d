"""How many cores are idle now.

llama.cpp's threads wait for one another by spinning: on a busy machine two threads are far slower than
one (two cores, four other processes: 0.7 against tens of tokens per second), so a measurement takes no
more threads than there are idle cores.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")
_SECONDS = 0.3


def idle_cores(cores: int) -> int:
    """Idle cores among ``cores``, at least 1: sampled where the system counts ticks, else by the load."""
    before = _ticks(_STAT)
    if before is None:
        return max(1, round(cores - os.getloadavg()[0]))
    time.sleep(_SECONDS)
    after = _ticks(_STAT)
    return cores if after is None else idle_between(before, after, cores=cores)


def idle_between(before: tuple[int, int], after: tuple[int, int], *, cores: int) -> int:
    """Idle cores between two readings of (idle, all) ticks."""
    idle, total = (end - start for start, end in zip(before, after, strict=True))
    return max(1, round(cores * idle / total)) if total > 0 else cores


def _ticks(stat: Path) -> tuple[int, int] | None:
    """Idle (waiting for disks included) and all ticks since boot, over all cores (proc(5))."""
    try:
        fields = [int(field) for field in stat.read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return None
    return fields[3] + fields[4], sum(fields)
