"""Every model of a folder or Hub repository, opened from its headers: what there is to choose from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ropewalk.errors import CheckpointError, CheckpointMissingError, HubError, RopewalkError
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.readers.gguf import KnownArrays
from ropewalk.inspector.readers.hubsource import HubId, Repository, hub_id_of, open_repository, source_of_hub
from ropewalk.inspector.readers.hubstore import WORKERS, HubStore
from ropewalk.inspector.readers.repository import CONFIG
from ropewalk.inspector.readers.weights import gguf_models, is_weights
from ropewalk.inspector.records import Checkpoint
from ropewalk.inspector.survey import CheckpointList, Listed, listed, names_below

MAX_MODELS = 400
# After the first file of a repository the vocabulary is known, which is most of a header.
_SIBLING_WINDOW_BYTES = 128 * 1024

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Opened:
    """A model by the name that it is opened with; ``error`` is why it could not be."""

    source: str
    checkpoint: Checkpoint | None
    error: RopewalkError | None = None


def open_models(
    source: str,
    *,
    on_progress: Progress = lambda done, total: None,
    open_local: Callable[[str], Checkpoint] | None = None,
) -> tuple[Opened, ...]:
    """All models of a folder or repository, or the one that is named.

    In a folder that is a checkpoint itself these are it and the GGUF files in it, else all checkpoints below.
    ``on_progress`` hears how many were read, and of how many; ``open_local`` opens what is of this machine,
    for who may not read everything. Raises :class:`CheckpointError` where there is
    none, where none can be read, and where the Hub refuses.
    """
    folder, hub_id = Path(source), hub_id_of(source)
    if folder.is_dir():
        names = _folder_names(folder)
        known: KnownArrays = {}
        read = open_local or partial(open_checkpoint, known=known)
        found = [_opened(name, partial(read, name)) for name in _told(names, on_progress)]
    elif hub_id is not None and hub_id.file is None:
        found = _of_hub(source, hub_id, on_progress)
    else:
        found = [Opened(source, (open_local or open_checkpoint)(source))]
    errors = [one.error for one in found if one.error is not None]
    if errors and len(errors) == len(found):
        raise errors[0]
    return tuple(found)


def survey_repository(source: str) -> CheckpointList:
    """The models of a repository on the Hub, each in a line; of a folder of it, those in the folder.

    Raises :class:`CheckpointError` as :func:`open_models` does.
    """
    hub_id = hub_id_of(source)
    below = hub_id.file if hub_id is not None and (hub_id.file or "").endswith("/") else None
    whole = source_of_hub(hub_id) if hub_id is not None else source
    found = [one for one in open_models(whole) if below is None or _file_of(one, whole).startswith(below)]
    return CheckpointList(source, tuple(_line(one, _file_of(one, whole)) for one in found))


def _file_of(one: Opened, source: str) -> str:
    return one.source.removeprefix(source).removeprefix(":") or one.source


def _line(one: Opened, name: str) -> Listed:
    checkpoint = one.checkpoint
    if checkpoint is None:
        return Listed(name, error=str(one.error))
    return listed(name, lambda: checkpoint)


def _folder_names(folder: Path) -> list[str]:
    """What :func:`open_checkpoint` takes, checkpoint by checkpoint."""
    files = [entry.name for entry in folder.iterdir()]
    models = gguf_models(files)
    if CONFIG in files or any(map(is_weights, files)):
        return [str(folder), *(str(folder / name) for name in models)]
    names = [str(folder / name) for name in names_below(folder)]
    names = [name for name in names if not Path(name).name.startswith("mmproj")] or names
    if not names:
        open_checkpoint(folder)  # says what is there instead
    return _bounded(names, str(folder))


def _bounded(names: Sequence[str], source: str) -> list[str]:
    if len(names) > MAX_MODELS:
        raise CheckpointError(
            f"{source} holds {len(names):,} models; at most {MAX_MODELS} are compared: name some of them",
            code="too_many_models",
            where={"file": source, "count": len(names), "most": MAX_MODELS},
        )
    return list(names)


def _of_hub(source: str, hub_id: HubId, on_progress: Progress) -> list[Opened]:
    """The first model alone, then the others together, with what the first has told of their vocabulary."""
    try:
        with open_repository(source, hub_id) as repository:
            return _of_repository(source, repository, on_progress)
    except CheckpointMissingError as error:
        message = f"there is no file or folder {source}, and {error.message}"
        raise CheckpointMissingError(message, code=error.code, where=error.where) from error


def _of_repository(source: str, repository: Repository, on_progress: Progress) -> list[Opened]:
    names = repository.store.names()
    models = _bounded(gguf_models([name for name in names if name.endswith(".gguf")]), source)
    if not models or any(map(is_weights, names)):
        whole = [_opened(source, lambda: repository.read(None))]
    else:
        whole = []
    known: KnownArrays = {}
    total = len(whole) + len(models)

    def read(name: str) -> Opened:
        named = source if total == 1 else f"{source}:{name}"
        return _opened(named, lambda: repository.read(name, known=known))

    found = [*whole, *map(read, models[:1])]
    on_progress(len(found), total)
    if isinstance(repository.store, HubStore):
        repository.store.window_bytes = _SIBLING_WINDOW_BYTES
    with _workers() as pool:
        for one in pool.map(read, models[1:]):
            found.append(one)
            on_progress(len(found), total)
    return found


@contextmanager
def _workers() -> Iterator[ThreadPoolExecutor]:
    """On the way out of an error nothing more is asked for."""
    pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="models")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _opened(name: str, read: Callable[[], Checkpoint]) -> Opened:
    """A file that cannot be read leaves the others; that the Hub gives no answer does not."""
    try:
        return Opened(name, replace(read(), source=name))
    except HubError:
        raise
    except RopewalkError as error:
        return Opened(name, None, error)


def _told(names: Sequence[str], on_progress: Progress) -> Iterator[str]:
    for number, name in enumerate(names):
        on_progress(number, len(names))
        yield name
    on_progress(len(names), len(names))
