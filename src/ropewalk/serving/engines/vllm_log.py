"""The log of vLLM: how much memory it took for what, and why it gave up (0.32.0).

Most numbers are on ``/metrics`` without rounding; only the weights and the memory that it found are not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

from ropewalk.serving.report import PrintedBuffer, PrintedLog
from ropewalk.units import GIB

_WEIGHTS = re.compile(r"Model loading took (\d+\.(\d+)) GiB")
_CELLS = re.compile(r"KV cache size: ([\d,]+) tokens")
_CONTEXT = re.compile(r"Using max model len (\d+)")
# ``Engine core initialization failed. See root cause above`` names no cause; the first of these does.
_ERROR = re.compile(r"(?:^|\s)(?P<said>(?:[A-Za-z_.]*(?:Error|Exception)|vllm: error): .+)$")
_EMPTY_ERRORS = ("Engine core initialization failed", "WorkerProc initialization failed")


def parse(lines: Iterable[str]) -> PrintedLog:
    """Read a whole log; with several workers each prints its own weights."""
    weights: list[PrintedBuffer] = []
    cells: int | None = None
    context_len: int | None = None
    for line in lines:
        if match := _WEIGHTS.search(line):
            weights.append(_weights(match, device=f"worker {len(weights)}"))
        elif match := _CELLS.search(line):
            cells = int(match[1].replace(",", ""))
        elif match := _CONTEXT.search(line):
            context_len = int(match[1])
    return PrintedLog(buffers=tuple(weights), context_len=context_len, cells=cells)


def root_error(lines: Sequence[str]) -> str | None:
    """The first error that names a cause."""
    for line in lines:
        match = _ERROR.search(line)
        if match and not any(text in line for text in _EMPTY_ERRORS):
            return match["said"].strip()
    return None


def _weights(match: re.Match[str], *, device: str) -> PrintedBuffer:
    size, decimals = match.groups()
    return PrintedBuffer(
        name="weights",
        device=device,
        bytes=round(Decimal(size) * GIB),
        rounding_bytes=math.ceil(GIB / 2 / 10 ** len(decimals)),
    )
