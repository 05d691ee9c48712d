"""What a user names as a checkpoint, opened by the reader that is for it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from ropewalk.errors import CheckpointError, CheckpointMissingError
from ropewalk.inspector.records import Checkpoint
from ropewalk.inspector.repository import read_config, read_repository, read_single
from ropewalk.inspector.store import FolderStore, open_regular
from ropewalk.inspector.weights import GGUF_MAGIC, choose_gguf

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?", re.ASCII)


def open_checkpoint(source: str | os.PathLike[str], *, keep_arrays: Collection[str] = ()) -> Checkpoint:
    """Open a checkpoint from its headers.

    ``source`` is a folder, a ``.safetensors`` or ``.gguf`` file (any part of a split one), a
    ``*.index.json``, a ``config.json``, or a Hub id ``org/name[@revision]``. ``keep_arrays`` names GGUF
    arrays to keep whole, such as ``tokenizer.ggml.tokens``. Raises :class:`CheckpointError`.
    """
    text = os.fspath(source)
    path = Path(text)
    if _exists(path):
        if path.is_dir():
            return _open_folder(path, text, keep_arrays)
        return _open_file(path, text, keep_arrays)
    if _HUB_ID.fullmatch(text) and not text.endswith((".gguf", ".safetensors", ".json")):
        raise CheckpointError(f"{text}: reading from the Hub is being built")
    raise CheckpointMissingError(
        f"{text}: no such file or folder, and not a Hub id (org/name[@revision])", where={"file": text}
    )


def _exists(path: Path) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:  # a NUL in the name
        return False


def _open_folder(path: Path, source: str, keep_arrays: Collection[str]) -> Checkpoint:
    store = FolderStore(path, source=source)
    names = store.names()
    ggufs = [name for name in names if name.endswith(".gguf")]
    if ggufs and not any(name.endswith(".safetensors") for name in names):
        return _open_gguf(path / choose_gguf(ggufs, source=source), source, keep_arrays)
    return read_repository(store, path=path)


def _open_file(path: Path, source: str, keep_arrays: Collection[str]) -> Checkpoint:
    store = FolderStore(path.parent, source=source)
    if path.name.endswith(".index.json"):
        return read_repository(store, path=path.parent, index=path.name)
    if path.suffix == ".json":
        return read_config(store, path.name, path=path)
    if path.suffix == ".gguf" or _starts_with(path, GGUF_MAGIC):
        return _open_gguf(path, source, keep_arrays)
    return read_single(store, path.name, path=path)


def _open_gguf(path: Path, source: str, keep_arrays: Collection[str]) -> Checkpoint:
    from ropewalk.inspector.ggufset import open_gguf

    return open_gguf(path, source=source, keep_arrays=keep_arrays)


def _starts_with(path: Path, magic: bytes) -> bool:
    with open_regular(path) as stream:
        return stream.read(len(magic)) == magic
