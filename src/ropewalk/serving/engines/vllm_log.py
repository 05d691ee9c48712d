"""The log of vLLM: how much memory it took for what, and why it gave up (0.32.0).

Most numbers are on ``/metrics`` without rounding; only the weights and the memory that it found are not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

from ropewalk.serving.report import PrintedBuffer
from ropewalk.units import GIB

_WEIGHTS = re.compile(r"Model loading took (\d+\.(\d+)) GiB")
_CACHE = re.compile(r"(?:Auto set \(|Available KV cache memory: )(\d+\.(\d+))(?:/[\d.]+\))? GiB")
_ERROR = re.compile(r"(?:^|\s)(?P<said>(?:[A-Za-z_.]*(?:Error|Exception)|vllm: error): .+)$")
# These only say that another process failed; the first error that is not one of them is the cause.
_EMPTY_ERRORS = ("Engine core initialization failed", "WorkerProc initialization failed")


def parse(lines: Iterable[str]) -> tuple[PrintedBuffer, ...]:
    """Weights, and the cache where it was sized by utilisation; with several ranks each prints its own."""
    buffers: list[PrintedBuffer] = []
    for line in lines:
        for name, pattern in (("weights", _WEIGHTS), ("kv_cache", _CACHE)):
            if match := pattern.search(line):
                rank = sum(buffer.name == name for buffer in buffers)
                buffers.append(_buffer(name, match, rank))
    return tuple(buffers)


def root_error(lines: Sequence[str]) -> str | None:
    """The first error that names a cause."""
    for line in lines:
        match = _ERROR.search(line)
        if match and not any(text in line for text in _EMPTY_ERRORS):
            return match["said"].strip()
    return None


def first_reason(text: str) -> str:
    """The reason in an exception's own text: of pydantic's several lines the one that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and "validation error" in lines[0]:
        lines = [line for line in lines[1:] if not line.isidentifier()] or lines
    return re.sub(r"^(?:Value|Assertion) error, | \[type=.*$", "", lines[0]) if lines else text


def _buffer(name: str, match: re.Match[str], rank: int) -> PrintedBuffer:
    size, decimals = match.groups()
    return PrintedBuffer(
        name=name,
        device=f"rank {rank}",
        bytes=round(Decimal(size) * GIB),
        rounding_bytes=math.ceil(GIB / 2 / 10 ** len(decimals)),
    )
