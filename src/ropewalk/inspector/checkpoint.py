"""What a user names as a checkpoint, opened by the reader that is for it."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from ropewalk.errors import CheckpointError, CheckpointMissingError
from ropewalk.inspector.readers.folder import read_store
from ropewalk.inspector.readers.gguf import KnownArrays
from ropewalk.inspector.readers.repository import read_config, read_repository, read_single
from ropewalk.inspector.readers.store import FolderStore, is_plain, is_text, open_regular
from ropewalk.inspector.readers.weights import GGUF_MAGIC, PICKLE_SUFFIXES, choose_gguf, part_names
from ropewalk.inspector.records import Checkpoint


def open_checkpoint(
    source: str | os.PathLike[str],
    *,
    keep_arrays: Collection[str] = (),
    known: KnownArrays | None = None,
) -> Checkpoint:
    """Open a checkpoint from its headers.

    ``source`` is a folder, a ``.safetensors`` or ``.gguf`` file (any part of a split one), a
    ``*.index.json``, a ``config.json``, or a Hub id ``org/name[@revision]`` or its address, with
    ``:Q4_K_M`` or another part of a file name where the repository has several GGUF models. ``keep_arrays``
    names GGUF arrays to keep whole, such as ``tokenizer.ggml.tokens``; ``known`` is what other files of the
    same model have in common, see :func:`ropewalk.inspector.readers.gguf.parse_gguf`. Raises
    :class:`CheckpointError`.
    """
    text = os.fspath(source)
    path = Path(text)
    if not is_text(text):
        raise CheckpointError(f"the path {text!r} is not UTF-8 text", where={"file": ascii(text)})
    if not text or not _exists(path):
        return _open_hub(text, keep_arrays)
    if not path.is_dir():
        return _open_file(path, text, keep_arrays, known)
    path = _snapshot(path)
    return read_store(FolderStore(path, source=text), folder=path, keep_arrays=keep_arrays)


def _exists(path: Path) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:  # a NUL in the name
        return False


def _snapshot(folder: Path) -> Path:
    """The Hub cache's folder of a repository (``models--org--name``) stands for its snapshot of ``main``."""
    reference = folder / "refs" / "main"
    if not reference.is_file():
        return folder
    with open_regular(reference) as stream:
        commit = stream.read(64).decode("ascii", "replace").strip()
    snapshot = folder / "snapshots" / commit
    return snapshot if is_plain(commit) and snapshot.is_dir() else folder


def _open_file(
    path: Path, source: str, keep_arrays: Collection[str], known: KnownArrays | None
) -> Checkpoint:
    store = FolderStore(path.parent, source=source, named=path.name)
    if path.name.endswith(".index.json"):
        return read_repository(store, path=path.parent, index=path.name)
    if path.suffix in PICKLE_SUFFIXES:
        raise CheckpointError(
            f"{source} is a Python pickle, which ropewalk never opens",
            code="pickle_only",
            where={"file": source},
        )
    if path.suffix == ".json":
        return read_config(store, path.name, path=path)
    if path.suffix == ".gguf" or _starts_with(path, GGUF_MAGIC):
        from ropewalk.inspector.readers.ggufset import read_gguf_set

        return read_gguf_set(store, path.name, folder=path.parent, keep_arrays=keep_arrays, known=known)
    return read_single(store, path.name, path=path)


def _starts_with(path: Path, magic: bytes) -> bool:
    with open_regular(path) as stream:
        return stream.read(len(magic)) == magic


def _open_hub(source: str, keep_arrays: Collection[str]) -> Checkpoint:
    from ropewalk.inspector.readers.hubsource import from_address, open_hub, parse_hub_id

    source = from_address(source)
    hub_id = parse_hub_id(source)
    if hub_id is None or hub_id.repo.endswith((".safetensors", ".gguf", ".json")):
        raise CheckpointMissingError(
            f"{source}: no such file or folder, and no Hub id (org/name[@revision])", where={"file": source}
        )
    try:
        return open_hub(source, hub_id, keep_arrays=keep_arrays)
    except CheckpointMissingError as error:
        message = f"there is no file or folder {source}, and {error.message}"
        raise CheckpointMissingError(message, code=error.code, where=error.where) from error


def engine_file(source: str) -> str:
    """What an engine is given for a checkpoint: the GGUF file where a folder holds one, part 1 of a split
    one, the snapshot of a folder in the Hub's cache; everything else, a Hub id too, as it is.

    Raises :class:`CheckpointError` for a folder with several GGUF models.
    """
    path = Path(source)
    if path.is_dir():
        folder = _snapshot(path)
        name = choose_gguf([entry.name for entry in folder.iterdir()], source=source)
        return str(folder / part_names(name)[0]) if name else source if folder == path else str(folder)
    if path.suffix == ".gguf":
        first = path.with_name(part_names(path.name)[0])
        return str(first) if first != path and first.is_file() else source
    return source
