"""Command lines and logs of servers that ropewalk did not start."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk.core.arguments import Source, public
from ropewalk.core.reading import inspection_of
from ropewalk.errors import CheckpointError
from ropewalk.validation import require_type

if TYPE_CHECKING:
    from ropewalk.checking import CheckResult
    from ropewalk.checking.log_report import LogReport
    from ropewalk.checking.receipts import Receipts
    from ropewalk.inspector.records import Inspection
    from ropewalk.planner.machine import Machine


@public
def check(
    command: str | Sequence[str],
    *,
    checkpoint: Source | Inspection | None = None,
    engine_version: str | None = None,
    gpu: str | None = None,
    memory_bytes: int | None = None,
    device: str = "auto",
    machine: Machine | None = None,
    read: Callable[[str], Inspection | None] | None = None,
) -> CheckResult:
    """Judge a ``vllm serve`` or ``llama-server`` command: what it resolves to, what is wrong, its repair.

    ``command`` is its words, one string as typed into a shell, or a file that holds it (a script, a systemd
    unit, a compose file, llama-swap's configuration), with the name of the service behind it. Without
    ``checkpoint`` the command's own model is read, from this machine or the Hub; where it cannot be, the
    verdict is open. ``read`` reads it instead, and no file is looked for then. ``engine_version`` is the
    version whose rules apply. ``gpu`` is a card's name, ``memory_bytes`` the memory of each device,
    ``device`` its kind (``cpu``, ``gpu``), ``machine`` all of it at once; without a memory whether the server
    fits is not judged. Nothing is started. Raises
    :class:`CheckpointError` for a checkpoint that is named or here and cannot be read, and
    :class:`UsageError` for a command that starts no engine.
    """
    from ropewalk.checking import check_command, read_document
    from ropewalk.checking.target import target_machine
    from ropewalk.planner.machine import Machine

    require_type("engine_version", engine_version, str | None)
    require_type("gpu", gpu, str | None)
    require_type("memory_bytes", memory_bytes, int | None)
    require_type("device", device, str)
    require_type("machine", machine, Machine | None)
    words = _words(command)
    if read is None:
        words = read_document(words) or words
    if checkpoint is None:
        inspection, unread = _served_model(words, read)
    else:
        inspection, unread = inspection_of(checkpoint), None
    return check_command(
        words,
        inspection=inspection,
        engine_version=engine_version,
        machine=machine or target_machine(gpu=gpu, memory_bytes=memory_bytes, device=device),
        unread=unread,
    )


def read_log(
    path: Source,
    *,
    command: str | Sequence[str] | None = None,
    checkpoint: Source | Inspection | None = None,
) -> LogReport:
    """Lay the log of a vLLM or llama-server started elsewhere beside what its command had to resolve to.

    ``command`` is the server's command line, where the log does not tell it. Without ``checkpoint`` the
    command's own model is read where that is on this machine. Raises :class:`CheckpointError`, and
    :class:`UsageError` for a file that is no such log.
    """
    report, _ = _read_log(path, command, checkpoint)
    return report


def receipts(
    paths: Iterable[Source],
    *,
    command: str | Sequence[str] | None = None,
    checkpoint: Source | Inspection | None = None,
) -> Receipts:
    """What was planned and what was printed of each log, as numbers alone.

    Raises what :func:`read_log` raises.
    """
    from ropewalk.checking.receipts import Receipts, receipt_of

    read = (_read_log(path, command, checkpoint) for path in paths)
    return Receipts(tuple(receipt_of(report, inspection) for report, inspection in read))


def _read_log(
    path: Source, command: str | Sequence[str] | None, checkpoint: Source | Inspection | None
) -> tuple[LogReport, Inspection | None]:
    """The report of a log, and the model that was served where it is at hand."""
    from ropewalk.checking.foreign_log import open_log
    from ropewalk.checking.log_report import log_report

    log = open_log(Path(path))
    given = None if command is None else _words(command)
    words = given or log.command
    inspection = None if checkpoint is None else inspection_of(checkpoint)
    if inspection is None and words:
        inspection, _ = _served_model(words)
    return log_report(log, path=str(path), command=given, inspection=inspection), inspection


def _words(command: str | Sequence[str]) -> tuple[str, ...]:
    words = (command,) if isinstance(command, str) else command
    require_type("command", tuple(words) if isinstance(words, Sequence) else words, tuple[str, ...])
    return tuple(words)


def _served_model(
    words: Sequence[str], read: Callable[[str], Inspection | None] | None = None
) -> tuple[Inspection | None, str | None]:
    """What a command serves, or why it could not be read."""
    from ropewalk.checking import model_source

    source = model_source(words)
    if source is None:
        return None, "it is named inside a container, or not at all"
    if read is not None:
        inspection = read(source)
        return inspection, None if inspection else f"{source} is not what may be read here"
    source = os.path.expandvars(os.path.expanduser(source))
    try:
        return inspection_of(source), None
    except CheckpointError as error:
        if os.path.lexists(source):
            raise
        return None, error.message
