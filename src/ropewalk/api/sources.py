"""Which checkpoints a client may name, and the inspections of those asked for lately."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ropewalk.api.problems import RefusedError
from ropewalk.errors import CheckpointMissingError
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.inspector.readers.hubsource import open_hub, parse_hub_id
from ropewalk.inspector.readers.store import unreadable
from ropewalk.inspector.records import Checkpoint, Inspection
from ropewalk.limits import MAX_HUB_READERS, MAX_HUB_REQUEST_SECONDS
from ropewalk.planner.options import PlanOptions, ServerOptions

KEPT = 32
KEPT_SECONDS = 60.0

Options = TypeVar("Options", PlanOptions, ServerOptions)
Stamp = tuple[tuple[str, int, int], ...]


class Sources:
    """The folders that were named by the operator and, if allowed, the Hub."""

    def __init__(self, folders: Sequence[Path], *, hub: bool) -> None:
        self._folders = tuple(os.path.realpath(folder) for folder in folders)
        self._hub = hub
        self._hub_readers = threading.BoundedSemaphore(MAX_HUB_READERS)
        self._kept = InspectionCache()

    def open(self, name: str) -> Checkpoint:
        """Open a checkpoint from its headers. Raises :class:`RefusedError`, :class:`CheckpointError`."""
        path = self._local(name)
        if path is not None:
            return open_checkpoint(path)
        hub_id = parse_hub_id(name)
        assert hub_id is not None  # noqa: S101
        if not self._hub_readers.acquire(blocking=False):  # they must not take the threads of all others
            raise RefusedError(
                f"{MAX_HUB_READERS} requests are reading from the Hub; ask again",
                status=503, code="hub_busy", headers={"Retry-After": "5"},
            )  # fmt: skip
        try:
            return open_hub(name, hub_id, seconds=MAX_HUB_REQUEST_SECONDS)
        finally:
            self._hub_readers.release()

    def inspect(self, name: str) -> Inspection:
        """Inspect a checkpoint, or say again what was said of the very same files a moment ago."""
        path = self._local(name)
        stamp = () if path is None else stamp_of(path)
        return self._kept.get(name, stamp, lambda: inspect_checkpoint(self.open(name)))

    def address(self, name: str) -> str:
        """What another process is to open: a path that was resolved, or a Hub id as it is."""
        return self._local(name) or name

    def allowed(self, options: Options) -> Options:
        """The options with addresses in place of the checkpoints that they name themselves."""
        named = options.copy()
        if draft := options.get("draft"):
            named["draft"] = self.address(draft)
        if projector := options.get("projector"):
            named["projector"] = self.address(projector)
        return named

    def inspect_if_allowed(self, name: str) -> Inspection | None:
        """For what a command line names by itself: None where that is not at hand, or not to be read."""
        try:
            is_local = self._local(name) is not None
        except (RefusedError, CheckpointMissingError):
            return None
        return self.inspect(name) if is_local else None

    def file(self, name: str) -> str:
        """The path of any file in the folders. Raises :class:`RefusedError`, :class:`CheckpointError`."""
        path = self._local(name)
        if path is None:
            raise CheckpointMissingError(f"{name}: no such file", where={"file": name})
        return path

    def _local(self, name: str) -> str | None:
        """The path of a name in the folders; None for a Hub id that may be asked for.

        A relative name is looked for in each folder in turn. Every link on the way is resolved first; what
        lies elsewhere is refused in the same words whether it exists or not.
        """
        if not name or "\0" in name:
            raise RefusedError(
                "a checkpoint has a name", status=422, code="usage", where={"field": "checkpoint"}
            )
        candidates = [os.path.join(folder, name) for folder in self._folders]  # an absolute one stays itself
        inside = [path for path in candidates if self._is_inside(os.path.realpath(path))]
        found = next((path for path in inside if os.path.exists(path)), None)
        if found is not None:
            return _resolved(found)
        if self._hub and parse_hub_id(name):
            return None
        if inside:
            raise CheckpointMissingError(
                f"{name}: no such file or folder in the folders of this service", where={"file": name}
            )
        raise RefusedError(
            f"{name} is not in a folder that this service reads; they are named by --models-dir"
            + ("" if self._hub else ", and Hub ids are allowed by --hub"),
            status=403, code="path_not_allowed", where={"file": name},
        )  # fmt: skip

    def _is_inside(self, real: str) -> bool:
        return any(os.path.commonpath((real, folder)) == folder for folder in self._folders)


def _resolved(path: str) -> str:
    """Links resolved, but for the last part of a file's path: in the Hub's cache the target has no suffix."""
    if os.path.isdir(path):
        return os.path.realpath(path)
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def stamp_of(path: str) -> Stamp:
    """Name, size and time of change of every file beside or below it, folders not entered."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    try:
        with os.scandir(folder) as entries:
            files = [(entry.name, entry.stat()) for entry in entries if entry.is_file()]
    except OSError as error:
        raise unreadable(folder, error) from error
    return tuple(sorted((name, status.st_size, status.st_mtime_ns) for name, status in files))


@dataclass(frozen=True, slots=True)
class _Entry:
    stamp: Stamp
    until: float
    inspection: Inspection


class InspectionCache:
    """The inspections asked for last, for at most a minute and as long as the files are the same."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def get(self, name: str, stamp: Stamp, make: Callable[[], Inspection]) -> Inspection:
        """What is kept under this name, else what ``make`` says; two who ask at once may both make it."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None and entry.stamp == stamp and self._clock() < entry.until:
                self._entries.move_to_end(name)
                return entry.inspection
        inspection = make()
        with self._lock:
            self._entries[name] = _Entry(stamp, self._clock() + KEPT_SECONDS, inspection)
            self._entries.move_to_end(name)
            while len(self._entries) > KEPT:
                self._entries.popitem(last=False)
        return inspection
