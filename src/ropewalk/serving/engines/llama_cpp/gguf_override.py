"""Lifts the context length that a GGUF file declares: by its key for the engine, or in a copy of the file.

llama-server takes ``--override-kv``; the embedded engine has no such parameter, so it is given a copy in
which this one number differs. The user's file is never written to.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ropewalk.errors import EngineError, UsageError
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.readers.gguf import ScalarPlace
from ropewalk.inspector.readers.ggufset import scalar_place
from ropewalk.inspector.readers.weights import part_names
from ropewalk.serving.process.processes import process_token
from ropewalk.units import MIB, format_bytes

_ROOM_BYTES = 64 * MIB  # left free beside the copy
_ADVICE = "; set TMPDIR to a larger disk, or use llama-server: it needs none"


def context_key(model: Path) -> str:
    """The metadata key of the declared length, ``ARCHITECTURE.context_length``."""
    return f"{open_checkpoint(model).gguf.get('general.architecture')}.context_length"


@contextmanager
def patched_copy(model: Path, *, context_len: int) -> Iterator[Path]:
    """A copy of the file that declares ``context_len``, in a temporary folder that is removed at the end.

    Of a split model the first part is copied, and the others are linked. Raises :class:`CheckpointError`
    where the file declares no length, :class:`EngineError` (``disk_full``) where there is no room.
    """
    source = model.absolute()
    place = scalar_place(source, context_key(source))
    with tempfile.TemporaryDirectory(prefix=f"ropewalk-{process_token()}-") as name:
        copy = Path(name, source.name)
        require_room(copy.parent.parent, source, advice=_ADVICE)
        shutil.copyfile(source, copy)
        _patch(copy, place, context_len)
        for part in part_names(source.name)[1:]:
            copy.with_name(part).symlink_to(source.with_name(part))
        yield copy


def _patch(copy: Path, place: ScalarPlace, context_len: int) -> None:
    try:
        number = struct.pack(place.layout, context_len)
    except struct.error as error:
        raise UsageError(
            f"a context of {context_len} tokens does not fit the {place.type} in which the file declares it",
            where={"value": context_len, "type": place.type},
        ) from error
    with copy.open("r+b") as file:
        file.seek(place.offset)
        file.write(number)


def require_room(folder: Path, source: Path, *, advice: str = "") -> None:
    """Raise :class:`EngineError` (``disk_full``) where ``folder`` has no room for a copy of ``source``.

    ``advice`` ends the message: what else can be done.
    """
    needed, free = source.stat().st_size + _ROOM_BYTES, shutil.disk_usage(folder).free
    if needed > free:
        raise EngineError(
            f"no room in {folder} for a copy of {source.name}: {format_bytes(needed)} needed, "
            f"{format_bytes(free)} free{advice}",
            code="disk_full",
            where={"folder": str(folder), "needed": needed, "free": free},
        )
