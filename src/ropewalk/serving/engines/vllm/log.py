"""The log of vLLM: how much memory it took for what, and why it gave up (0.32.0).

Most numbers are on ``/metrics`` without rounding; only the weights and the memory that it found are not.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

from ropewalk.serving.server_report import PrintedBuffer
from ropewalk.units import GIB

_WEIGHTS = re.compile(r"Model loading took (\d+\.(\d+)) GiB")
_CACHE = re.compile(r"(?:Auto set \(|Available KV cache memory: )(\d+\.(\d+))(?:/[\d.]+\))? GiB")
_CONCURRENCY = re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d,]+\.\d+)x")
# "(EngineCore pid=12) ERROR 11-30 12:00:01 [core.py:700] " before what a process other than the server says.
_PREFIX = re.compile(r"^\(\w+(?: pid=\d+)?\) (?:[A-Z]+ [\d-]+ [\d:]+ \[[^\]]*\] ?)?")
_USAGE = re.compile(r"^\S+(?: serve)?: error: (?P<said>.+)$")
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception)(?:: .+)?$")
_DIED = re.compile(r"^Worker proc \S+ died unexpectedly")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
# These only say that another process failed; the first error that is not one of them is the cause.
_EMPTY_ERRORS = (
    "Engine core initialization failed",
    "WorkerProc initialization failed",
    "EngineCore encountered an issue",
)
_MESSAGE_LINES = 4
_FIELD_AND_MESSAGE = re.compile(r"^(?P<field>\S.*\n)?  (?! )(?P<message>.+)$", re.MULTILINE)


def parse(lines: Iterable[str]) -> tuple[PrintedBuffer, ...]:
    """Weights, and the cache where it was sized by utilisation; with several ranks each prints its own."""
    buffers: list[PrintedBuffer] = []
    for line in lines:
        for name, pattern in (("weights", _WEIGHTS), ("kv_cache", _CACHE)):
            if match := pattern.search(line):
                rank = sum(buffer.name == name for buffer in buffers)
                buffers.append(_buffer(name, match, rank))
    return tuple(buffers)


def max_concurrency(lines: Iterable[str]) -> float | None:
    """Requests of full length that the pool holds at once, with two decimals; the least of all ranks."""
    found = [float(match[1].replace(",", "")) for line in lines if (match := _CONCURRENCY.search(line))]
    return min(found, default=None)


def root_error(lines: Sequence[str]) -> str | None:
    """The first error that names a cause; of exceptions raised from one another the last."""
    plain = [_PREFIX.sub("", line) for line in lines]
    for number, line in enumerate(plain):
        if usage := _USAGE.match(line):
            return usage["said"]
        if _DIED.match(line):
            return line
        if not _EXCEPTION.match(line) or any(text in line for text in _EMPTY_ERRORS):
            continue
        rest = list(itertools.takewhile(lambda after: not after.startswith("Traceback"), plain[number + 1 :]))
        if not any(after.startswith(_CHAINED) for after in rest):
            return first_reason("\n".join([line, *rest[:_MESSAGE_LINES]]))
    return None


def first_reason(text: str) -> str:
    """The reason in an exception's own text: of pydantic's several lines the one that says what is wrong."""
    head, _, rest = text.partition("\n")
    found = _FIELD_AND_MESSAGE.search(rest) if "validation error" in head else None
    if found is None:
        return head.strip()
    message = re.sub(r"^(?:Value|Assertion) error, | \[type=.*$", "", found["message"])
    return f"{found['field'].strip()}: {message}" if found["field"] else message


def _buffer(name: str, match: re.Match[str], rank: int) -> PrintedBuffer:
    size, decimals = match.groups()
    return PrintedBuffer(
        name=name,
        device=f"rank {rank}",
        bytes=round(Decimal(size) * GIB),
        rounding_bytes=math.ceil(GIB / 2 / 10 ** len(decimals)),
    )
