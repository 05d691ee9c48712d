"""The log of a server that somebody else started: which engine, with what command, what it printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, Protocol, cast

from ropewalk.engines import REGISTRY, EngineName
from ropewalk.errors import UsageError
from ropewalk.serving.server_report import PrintedBuffer
from ropewalk.units import MIB

_MOST_BYTES = 64 * MIB  # what matters is at the start; the rest are requests


@dataclass(frozen=True, slots=True)
class Pool:
    """The memory that vLLM took for its KV cache on one rank, within ``rounding_bytes``."""

    bytes: int
    rounding_bytes: int


@dataclass(frozen=True, slots=True)
class ForeignLog:
    """What a log tells; what it does not is None.

    ``context_len`` is tokens per sequence, ``cells`` the tokens that the KV cache holds in all. ``device``
    is where vLLM has its cache. ``finds_pool``: the cache is as large as what was found free, which no plan
    knows.
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


class LogReader(Protocol):
    """The functions of the module that reads an engine's log."""

    @property
    def MARKS(self) -> re.Pattern[str]:
        """What only this engine prints."""
        ...

    def read(self, lines: Sequence[str]) -> ForeignLog:
        """What the lines tell."""
        ...


def _reader(engine: str) -> LogReader | None:
    module = REGISTRY[engine].log_reader
    return None if module is None else cast("LogReader", import_module(module))


def open_log(path: Path) -> ForeignLog:
    """Read a log's first 64 MiB. Raises :class:`UsageError` for none, and for that of another program."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", where={"file": str(path)}) from error
    lines = data.decode("utf-8", "replace").splitlines()
    for reader in map(_reader, REGISTRY):
        if reader and any(reader.MARKS.search(line) for line in lines):
            return reader.read(lines)
    raise UsageError(
        f"{path} is no log of vLLM or llama-server, or was printed without sizes (llama-server: -lv 4)",
        code="log_not_recognised",
        where={"file": str(path)},
    )


def typed_command(lines: Sequence[str], program: str) -> tuple[str, ...] | None:
    """The command where a shell or a wrapper printed it, as one string; ``program`` is a pattern."""
    found = last_match(re.compile(rf"^\s*(?:[$#+>] *)?((?:\w+=\S+ +)*(?:\S*/)?{program} .+)$"), lines)
    return None if found is None else (found,)


def last_match(pattern: re.Pattern[str], lines: Sequence[str]) -> str | None:
    """The group that matched, in the last line that does: a ``--fit`` pass prints its own before."""
    matches = [match for line in lines if (match := pattern.search(line))]
    return next((group for group in matches[-1].groups() if group), None) if matches else None
