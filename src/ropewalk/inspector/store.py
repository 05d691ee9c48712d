"""Where the files of a checkpoint lie: a local folder now, a Hub repository through the same few methods."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from ropewalk.errors import CheckpointError, CheckpointMissingError
from ropewalk.inspector.jsonfile import check_size
from ropewalk.inspector.safetensors import LENGTH_BYTES, SNIFF_BYTES, header_length


@dataclass(frozen=True, slots=True)
class RawHeader:
    """The undecoded header of a safetensors file, and the bytes that follow it."""

    raw: bytes
    file_bytes: int

    @property
    def data_bytes(self) -> int:
        """The length of the data section."""
        return self.file_bytes - LENGTH_BYTES - len(self.raw)


class Store(Protocol):
    """The files of a checkpoint by name."""

    @property
    def source(self) -> str:
        """What the user asked for, for messages."""

    def names(self) -> Sequence[str]:
        """All file names, sorted."""

    def has(self, name: str) -> bool:
        """Whether a file of this name is there, also below a subfolder."""

    def read(self, name: str) -> bytes:
        """A whole small file; refused above the limit of a JSON document."""

    def expect(self, names: Sequence[str]) -> None:
        """The headers that will be asked for next, in this order, so that they can be fetched together."""

    def header(self, name: str) -> RawHeader:
        """The header of a safetensors file. Raises :class:`CheckpointError`."""


class FolderStore:
    """A local folder. Names are confined to it; see :func:`confine`."""

    def __init__(self, folder: Path, *, source: str | None = None) -> None:
        self.folder = folder
        self.source = source or str(folder)

    def names(self) -> Sequence[str]:
        """The names of the folder's entries; subfolders are not entered."""
        try:
            return sorted(os.listdir(self.folder))
        except OSError as error:
            raise unreadable(self.folder, error) from error

    def has(self, name: str) -> bool:
        """Whether the folder holds something of this name."""
        return os.path.exists(self.folder / name)

    def read(self, name: str) -> bytes:
        """A whole small file."""
        with open_regular(confine(self.folder, name)) as stream:
            size = os.fstat(stream.fileno()).st_size
            check_size(size, file=name)
            return stream.read(size)

    def expect(self, names: Sequence[str]) -> None:
        """Local headers need no preparation."""

    def header(self, name: str) -> RawHeader:
        """The header of a safetensors file."""
        return read_header(confine(self.folder, name), name=name)


def read_header(path: Path, *, name: str) -> RawHeader:
    """Read the header of a local file and nothing else of it. Raises :class:`CheckpointError`."""
    with open_regular(path) as stream:
        file_bytes = os.fstat(stream.fileno()).st_size
        start = stream.read(SNIFF_BYTES)
        length = header_length(start, file=name, file_bytes=file_bytes)
        stream.seek(LENGTH_BYTES)
        raw = stream.read(length)
    if len(raw) < length:
        raise CheckpointError(
            f"{name} became shorter while it was read", code="header_length_exceeds_file",
            where={"file": name, "declared": length, "available": len(raw)},
        )  # fmt: skip
    return RawHeader(raw, file_bytes)


def open_regular(path: Path) -> BinaryIO:
    """Open a file that is one: no folder, device or pipe. Raises :class:`CheckpointError`."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise CheckpointError(
                f"{path} is not a regular file", code="checkpoint_unreadable", where={"file": str(path)}
            )
        return open(path, "rb")
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> CheckpointError:
    """Our error for what the operating system says."""
    kind = CheckpointMissingError if isinstance(error, FileNotFoundError) else CheckpointError
    reason = getattr(error, "strerror", None) or str(error)
    return kind(f"{path} cannot be read: {reason}", where={"file": str(path), "reason": reason})


def confine(folder: Path, name: str) -> Path:
    """The path of a file that an index or a listing names, kept inside the folder.

    A link may leave the folder only for the blobs of its own repository in the Hub's cache
    (``models--org--name/snapshots/REVISION/file -> ../../blobs/HASH``). Raises ``unsafe_path``.
    """
    if not is_plain(name):
        raise _unsafe(name, "it leaves the folder of the checkpoint")
    path = folder / name
    if path.is_symlink() or path.parent != folder:
        real, root = os.path.realpath(path), os.path.realpath(folder)
        blobs = os.path.join(os.path.dirname(os.path.dirname(root)), "blobs")
        if os.path.commonpath((real, root)) != root and os.path.dirname(real) != blobs:
            raise _unsafe(name, f"it is a link to {real}, outside the folder of the checkpoint")
    return path


def is_plain(name: str) -> bool:
    """Whether a file name from an index stays below its folder, as a path of any operating system."""
    parts = name.replace("\\", "/").split("/")
    return "" not in parts and ".." not in parts and ":" not in parts[0] and "\0" not in name


def _unsafe(name: str, reason: str) -> CheckpointError:
    return CheckpointError(
        f"the file name {name!r} is refused: {reason}",
        code="unsafe_path",
        where={"file": name, "reason": reason},
    )
