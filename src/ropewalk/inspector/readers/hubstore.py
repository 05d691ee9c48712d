"""A Hub repository as a :class:`Store`; a file that the local Hub cache holds is read there."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from ropewalk.errors import HubError
from ropewalk.inspector.readers.cursor import Cursor
from ropewalk.inspector.readers.hub import HubClient, Listing, Part
from ropewalk.inspector.readers.safetensors import LENGTH_BYTES, SNIFF_BYTES, header_length
from ropewalk.inspector.readers.store import FolderStore, RawHeader

# `bytes=0-100000`: what huggingface_hub 2.4.0 asks for first. The headers of nearly all shards fit.
FIRST_BYTES = 100_001
WINDOW_BYTES = 2 * 1024 * 1024  # the keys of a model with a vocabulary of 152,064 take 6 MB
WORKERS = 8
_REQUESTS = 32  # for one header, if every answer is shorter than asked for


class HubStore:
    """The files of one commit; a context manager that ends its threads and connections."""

    def __init__(self, client: HubClient, listing: Listing, *, source: str) -> None:
        self.source = source
        self.window_bytes = WINDOW_BYTES
        self._client = client
        self._listing = listing
        self._known = frozenset(listing.names)
        self._cache = FolderStore(snapshot(client.repo, listing.commit), source=source)
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="hub")
        self._waiting: deque[str] = deque()
        self._running: dict[str, Future[Any]] = {}

    def __enter__(self) -> HubStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.stop()
        self._pool.shutdown(cancel_futures=True)
        self._client.close()

    def names(self) -> Sequence[str]:
        """All files of the repository, with their folders."""
        return self._listing.names

    def has(self, name: str) -> bool:
        """Whether the repository has a file of this name."""
        return name in self._known

    def expect(self, names: Sequence[str]) -> None:
        """Ask for these files, ``WORKERS`` at a time and no further ahead of who takes them."""
        self._waiting.extend(names)
        self._start()

    def read(self, name: str) -> bytes:
        """A small file as a whole, bounded in bytes."""
        content: bytes = self._take(name)
        return content

    def header(self, name: str) -> RawHeader:
        """The header of a safetensors file, in one request, or two where it is long."""
        header: RawHeader = self._take(name)
        return header

    def open(self, name: str) -> Cursor:
        """A file to walk through, in windows of ``window_bytes``; the first tells its size."""
        if self._cache.has(name):
            return self._cache.open(name)
        first = self._part(name, 0, self.window_bytes)

        def fetch(offset: int, count: int) -> bytes:
            if offset + count <= len(first.data):
                return first.data[offset : offset + count]
            return self._part(name, offset, offset + count).data

        return Cursor(fetch, size=first.file_bytes, file=name, window_bytes=self.window_bytes)

    def _part(self, name: str, start: int, stop: int) -> Part:
        return self._client.part(self._listing.commit, name, start, stop, need=lambda first, total: stop)

    def _take(self, name: str) -> Any:
        future = self._running.pop(name, None)
        result = self._content(name) if future is None else future.result()
        self._start()
        return result

    def _start(self) -> None:
        while self._waiting and len(self._running) < WORKERS:
            name = self._waiting.popleft()
            self._running[name] = self._pool.submit(self._content, name)

    def _content(self, name: str) -> bytes | RawHeader:
        cached = self._cache.has(name)
        if name.endswith(".safetensors"):
            return self._cache.header(name) if cached else self._remote_header(name)
        return self._cache.read(name) if cached else self._client.whole(self._listing.commit, name)

    def _remote_header(self, name: str) -> RawHeader:
        """Ask for ``FIRST_BYTES``, then for what the length field says is still lacking."""
        data, stop = b"", FIRST_BYTES
        for _ in range(_REQUESTS):
            part = self._client.part(
                self._listing.commit, name, len(data), stop,
                need=lambda first, total: _wanted(first, file=name, file_bytes=total),
            )  # fmt: skip
            data += part.data
            stop = _wanted(data, file=name, file_bytes=part.file_bytes)
            if len(data) >= min(SNIFF_BYTES, part.file_bytes) and len(data) >= stop:
                return RawHeader(data[LENGTH_BYTES:stop], part.file_bytes)
        raise HubError(
            f"{name}: only {len(data):,} of {stop:,} bytes came in {_REQUESTS} requests",
            code="hub_short_answer", where={"file": name, "wanted": stop, "received": len(data)},
        )  # fmt: skip


def _wanted(first: bytes, *, file: str, file_bytes: int) -> int:
    """How many bytes of a file its header takes, with the length; until that is known, what tells it."""
    if len(first) < min(SNIFF_BYTES, file_bytes):
        return min(SNIFF_BYTES, file_bytes)
    return LENGTH_BYTES + header_length(first[:SNIFF_BYTES], file=file, file_bytes=file_bytes)


def snapshot(repo: str, commit: str) -> Path:
    """Where the local Hub cache keeps the files of a commit."""
    return cache_folder(repo) / "snapshots" / commit


def cache_folder(repo: str) -> Path:
    """Where the local Hub cache keeps a repository (``HF_HUB_CACHE``)."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"
