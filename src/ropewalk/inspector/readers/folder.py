"""All of a folder or Hub repository to a ``Checkpoint``, whichever format its weights have."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ropewalk.inspector.readers.gguf import KnownArrays
from ropewalk.inspector.readers.repository import read_repository
from ropewalk.inspector.readers.store import Store
from ropewalk.inspector.readers.weights import choose_gguf
from ropewalk.inspector.records import Checkpoint


def read_store(
    store: Store,
    *,
    folder: Path | None,
    wanted: str | None = None,
    keep_arrays: Collection[str] = (),
    known: KnownArrays | None = None,
) -> Checkpoint:
    """Open what a store holds: safetensors files where there are any, else its one GGUF model.

    ``wanted`` picks one of several GGUF models, ``known`` is what siblings of it have in common. Raises
    :class:`CheckpointError`.
    """
    gguf = choose_gguf(store.names(), source=store.source, wanted=wanted)
    if gguf is None:
        return read_repository(store, path=folder)
    from ropewalk.inspector.readers.ggufset import read_gguf_set

    return read_gguf_set(store, gguf, folder=folder, keep_arrays=keep_arrays, known=known)
