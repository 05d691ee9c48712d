"""From a source to its inspection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk.core.arguments import Source, public, source_of
from ropewalk.errors import UsageError

if TYPE_CHECKING:
    from ropewalk.documents import TensorList
    from ropewalk.inspector.records import Checkpoint, Inspection
    from ropewalk.inspector.survey import CheckpointList
    from ropewalk.planner.cache_summary import CacheSummary


def open_checkpoint(source: Source) -> Checkpoint:
    """Open a checkpoint from its headers: every tensor's name, dtype, shape and bytes.

    ``source`` is a folder, a ``.safetensors`` file, an index, a ``config.json``, a ``.gguf`` file (any
    part of a split one) or a Hub id ``org/name[@revision]``. Raises :class:`CheckpointError`.
    """
    from ropewalk.inspector.checkpoint import open_checkpoint as open_

    return open_(source)


@public
def inspect(source: Source | Checkpoint) -> Inspection:
    """Say what a checkpoint is: facts with their sources, what each layer keeps, what is wrong.

    No weight is loaded. Raises :class:`CheckpointError` where there is nothing to say.
    """
    from ropewalk.inspector.inspection import inspect_checkpoint
    from ropewalk.inspector.records import Checkpoint

    opened = source if isinstance(source, Checkpoint) else open_checkpoint(source_of(source))
    return inspect_checkpoint(opened)


def checkpoints(source: Source) -> CheckpointList:
    """The checkpoints in and below a folder, or of a Hub repository, each with its type, bits per weight and
    bytes.

    Raises :class:`UsageError` where ``source`` is neither, :class:`CheckpointError` where the Hub refuses.
    """
    from ropewalk.inspector.models import survey_repository
    from ropewalk.inspector.readers.hubsource import hub_id_of
    from ropewalk.inspector.survey import survey

    folder = Path(source)
    if folder.is_dir():
        return survey(folder)
    if hub_id_of(str(source)) is None:
        raise UsageError(f"{source} is no folder", where={"file": str(source)})
    return survey_repository(str(source))


def tensors(source: Source | Checkpoint, rows: Sequence[int] | None = None) -> TensorList:
    """The tensors of a checkpoint as a record: all of them, or the ``rows`` of its table in this order."""
    from ropewalk.documents import TensorList
    from ropewalk.inspector.records import Checkpoint

    opened = source if isinstance(source, Checkpoint) else open_checkpoint(source)
    table = opened.tensors
    chosen = range(len(table)) if rows is None else rows
    return TensorList(
        source=opened.source,
        format=opened.format,
        num_tensors=len(chosen),
        tensor_bytes=sum(table.nbytes[row] for row in chosen),
        tensors=tuple(table.row(row) for row in chosen),
        findings=opened.findings,
    )


def matching(checkpoint: Checkpoint, glob: str | None) -> list[int]:
    """The rows of the tensors whose whole name matches, in the table's order; all without a glob."""
    from fnmatch import fnmatchcase

    names = checkpoint.tensors.names
    return [row for row, name in enumerate(names) if glob is None or fnmatchcase(name, glob)]


def cache_summary(inspection: Inspection) -> CacheSummary | None:
    """What the model keeps, before any engine; None where a dimension is unknown."""
    from ropewalk.planner.cache_summary import cache_summary as summary

    return summary(inspection)


def inspection_of(source: Source | Inspection) -> Inspection:
    from ropewalk.inspector.records import Inspection

    return source if isinstance(source, Inspection) else inspect(source_of(source))
