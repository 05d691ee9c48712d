"""The log of a server that somebody else started: which engine, with what command, what it printed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Literal, Protocol, cast

from ropewalk.engines import REGISTRY, EngineName
from ropewalk.errors import CheckpointError, UsageError
from ropewalk.inspector.readers.store import open_regular
from ropewalk.limits import MAX_LOG_BYTES, MAX_LOG_LINE_CHARS
from ropewalk.serving.server_report import PrintedBuffer

# What collectors write before a line: compose's service, journald's or Kubernetes' time stamp, colours.
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}[A-Za-z]")
_COLLECTED = re.compile(
    r"^(?:[\w.-]{1,64} +\| ?)?"
    r"(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]? +)?"
    r"(?:[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d [\w.-]{1,64} [\w.@-]{1,64}\[\d{1,9}\]: )?"
    r"(?:std(?:out|err) F )?"
)


@dataclass(frozen=True, slots=True)
class Pool:
    """The memory that vLLM took for its KV cache on one rank, within ``rounding_bytes``."""

    bytes: int
    rounding_bytes: int


@dataclass(frozen=True, slots=True)
class ForeignLog:
    """What a log tells; what it does not is None.

    ``context_len`` is tokens per sequence, ``cells`` the tokens that the KV cache holds in all,
    ``batched_tokens`` those of one step. ``device`` is where the cache is, ``memory_bytes`` the size of that
    device, ``device_count`` how many of them hold a part. ``finds_pool``: the cache is as large as what was
    found free, which no plan knows. ``sums`` are
    the planned terms that one printed name stands for, where it is more than that of its own name.
    """

    engine: EngineName
    version: str | None
    command: tuple[str, ...] | None
    context_len: int | None
    num_sequences: int | None
    cells: int | None
    buffers: tuple[PrintedBuffer, ...]
    finds_pool: bool = False
    pool: Pool | None = None
    device: Literal["cpu", "gpu"] | None = None
    error: str | None = None
    batched_tokens: int | None = None
    memory_bytes: int | None = None
    device_count: int | None = None
    sums: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class LogReader(Protocol):
    """The functions of the module that reads an engine's log."""

    @property
    def MARKS(self) -> re.Pattern[str]:
        """What only this engine prints."""
        ...

    def read(self, lines: Sequence[str]) -> ForeignLog:
        """Everything that the lines of a log report."""
        ...


def _reader(engine: str) -> LogReader | None:
    module = REGISTRY[engine].log_reader
    return None if module is None else cast("LogReader", import_module(module))


def open_log(path: Path) -> ForeignLog:
    """Read a log's first 64 MiB. Raises :class:`UsageError` for none, and for that of another program."""
    try:
        with open_regular(path) as stream:
            data = stream.read(MAX_LOG_BYTES)
    except (CheckpointError, OSError) as error:
        reason = error.message if isinstance(error, CheckpointError) else f"{path} cannot be read: {error}"
        raise UsageError(reason, where={"file": str(path)}) from error
    lines = plain_lines(data.decode("utf-8", "replace"))
    for reader in map(_reader, REGISTRY):
        if reader and any(reader.MARKS.search(line) for line in lines):
            return reader.read(lines)
    raise UsageError(
        f"{path} is no log of vLLM or llama-server, or was printed without sizes (llama-server: -lv 4)",
        code="log_not_recognised",
        where={"file": str(path)},
    )


def plain_lines(text: str) -> list[str]:
    """The lines as the engine printed them: clipped, without colours and what a collector put in front."""
    clipped = (line[:MAX_LOG_LINE_CHARS] for line in text.splitlines())
    return [
        _COLLECTED.sub("", _COLOUR.sub("", line) if "\x1b" in line else line, count=1) for line in clipped
    ]


def typed_command(lines: Sequence[str], program: str) -> tuple[str, ...] | None:
    """The command where a shell or a wrapper printed it, as one string; ``program`` is a pattern."""
    found = last_match(re.compile(rf"^\s*(?:[$#+>] *)?((?:\w+=\S+ +)*(?:\S*/)?{program} .+)$"), lines)
    return None if found is None else (found,)


def last_match(pattern: re.Pattern[str], lines: Sequence[str]) -> str | None:
    """The group that matched, in the last line that does: a ``--fit`` pass prints its own before."""
    for line in reversed(lines):
        match = pattern.search(line)
        if match:
            return next((group for group in match.groups() if group), None)
    return None
