"""Where the files of a checkpoint lie: a local folder now, a Hub repository through the same few methods."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ropewalk.errors import CheckpointError, CheckpointMissingError
from ropewalk.inspector.readers.jsonfile import check_size
from ropewalk.inspector.readers.safetensors import LENGTH_BYTES, SNIFF_BYTES, header_length
from ropewalk.inspector.wording import clip

if TYPE_CHECKING:
    from ropewalk.inspector.readers.cursor import Cursor


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
        """Names of all files, sorted."""

    def has(self, name: str) -> bool:
        """Whether a file of this name is there, also below a subfolder."""

    def read(self, name: str) -> bytes:
        """A whole small file; refused above the limit of a JSON document."""

    def expect(self, names: Sequence[str]) -> None:
        """The headers that will be asked for next, in this order, so that they can be fetched together."""

    def header(self, name: str) -> RawHeader:
        """The header of a safetensors file. Raises :class:`CheckpointError`."""

    def open(self, name: str) -> Cursor:
        """A file to walk through from its start; to be used in a ``with`` block."""


class FolderStore:
    """A local folder. Names are confined to it; see :func:`confine`."""

    def __init__(self, folder: Path, *, source: str, named: str | None = None) -> None:
        """``named`` is a file that the user named himself: that one may be a link to anywhere."""
        self.folder = folder
        self.source = source
        self._named = named
        self._names: list[str] | None = None

    def names(self) -> Sequence[str]:
        """The names of the folder's entries; subfolders are not entered."""
        if self._names is None:
            try:
                self._names = sorted(filter(is_text, os.listdir(self.folder)))
            except OSError as error:
                raise unreadable(self.folder, error) from error
        return self._names

    def has(self, name: str) -> bool:
        """Whether the folder holds something of this name."""
        return os.path.exists(os.path.join(self.folder, name))

    def read(self, name: str) -> bytes:
        """A small file as a whole, bounded in bytes."""
        with open_regular(self._path(name)) as stream:
            size = os.fstat(stream.fileno()).st_size
            check_size(size, file=name)
            return stream.read(size) or b""

    def expect(self, names: Sequence[str]) -> None:
        """Local headers need no preparation."""

    def header(self, name: str) -> RawHeader:
        """The header of a safetensors file; nothing else of it is read."""
        with open_regular(self._path(name)) as stream:
            number = stream.fileno()
            file_bytes = os.fstat(number).st_size
            start = os.pread(number, SNIFF_BYTES, 0)
            length = header_length(start, file=name, file_bytes=file_bytes)
            raw = os.pread(number, length, LENGTH_BYTES)
        if len(raw) < length:
            raise CheckpointError(
                f"{name} became shorter while it was read", code="header_length_exceeds_file",
                where={"file": name, "declared": length, "available": len(raw)},
            )  # fmt: skip
        return RawHeader(raw, file_bytes)

    def open(self, name: str) -> Cursor:
        """A file to walk through from its start; to be used in a ``with`` block."""
        from ropewalk.inspector.readers.cursor import Cursor

        stream = open_regular(self._path(name))
        size = os.fstat(stream.fileno()).st_size
        return Cursor(
            lambda offset, count: os.pread(stream.fileno(), count, offset),
            size=size, file=name, close=stream.close,
        )  # fmt: skip

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name) if name == self._named else confine(self.folder, name)


def open_regular(path: str | Path) -> FileIO:
    """Open a file that is one: no folder, device or pipe. Raises :class:`CheckpointError`."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not make us wait
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise CheckpointError(f"{path} is not a regular file", where={"file": str(path)})
    return FileIO(number)


def unreadable(path: str | Path, error: Exception) -> CheckpointError:
    """Our error for what the operating system says."""
    kind = CheckpointMissingError if isinstance(error, FileNotFoundError) else CheckpointError
    reason = getattr(error, "strerror", None) or str(error)
    return kind(f"{path} cannot be read: {reason}", where={"file": str(path), "reason": reason})


def confine(folder: Path, name: str) -> str:
    """The path of a file that an index or a listing names, kept inside the folder.

    A link may leave the folder only for the blobs of its own repository in the Hub's cache
    (``models--org--name/snapshots/REVISION/file -> ../../blobs/HASH``). Raises ``unsafe_path``.
    """
    if not is_plain(name):
        raise _unsafe(name, "it leaves the folder of the checkpoint")
    path = os.path.join(folder, name)
    if "/" in name or os.path.islink(path):
        real, root = os.path.realpath(path), os.path.realpath(folder)
        blobs = os.path.join(os.path.dirname(os.path.dirname(root)), "blobs")
        if os.path.commonpath((real, root)) != root and os.path.dirname(real) != blobs:
            raise _unsafe(name, f"it is a link to {real}, outside the folder of the checkpoint")
    return path


def is_text(name: str) -> bool:
    """Whether a file name is UTF-8. Others can be in no index and could not be printed."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def is_plain(name: str) -> bool:
    """Whether a file name from an index stays below its folder, as a path of any operating system."""
    parts = name.replace("\\", "/").split("/")
    return "" not in parts and ".." not in parts and ":" not in parts[0] and "\0" not in name


def _unsafe(name: str, reason: str) -> CheckpointError:
    return CheckpointError(
        f"the file name {clip(name)!r} is refused: {reason}",
        code="unsafe_path",
        where={"file": clip(name), "reason": reason},
    )
