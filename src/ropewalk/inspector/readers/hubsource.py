"""A Hub id to a ``Checkpoint``: from the Hub, or from its local cache where the Hub cannot be asked."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

from ropewalk.errors import CheckpointMissingError, HubError
from ropewalk.findings import Finding
from ropewalk.inspector.readers.folder import read_store
from ropewalk.inspector.readers.gguf import KnownArrays
from ropewalk.inspector.readers.hub import COMMIT, HubClient
from ropewalk.inspector.readers.hubstore import HubStore, cache_folder, snapshot
from ropewalk.inspector.readers.store import FolderStore, is_plain
from ropewalk.inspector.records import Checkpoint
from ropewalk.limits import MAX_HUB_SECONDS

# What huggingface_hub 2.4.0 allows as a repository id, with the organisation.
_ID = re.compile(r"(\w[\w.-]{0,95}/\w[\w.-]{0,95})(?:@([\w./-]+))?(?::([\w./-]+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class HubId:
    """A repository, a branch, tag or commit of it, and which of several GGUF files is meant."""

    repo: str
    revision: str
    file: str | None


# A page of the Hub as a browser shows it: the repository, and a file or folder of some revision.
_ADDRESS = re.compile(
    r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co|hf-mirror\.com)/(?!datasets/|spaces/|docs/|papers/)"
    r"([\w.-]+/[\w.-]+)(?:/(?:blob|tree|resolve|raw)/([\w.%-]+)(?:/([^?#]*))?|/discussions(?:/[^?#]*)?)?/?(?:[?#].*)?",
    re.ASCII,
)


def from_address(text: str) -> str:
    """``org/name[@revision][:file]`` of an address as pasted from a browser; other text as it is.

    A folder ends with a slash: the GGUF models in it are meant where it has any.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return text
    repo, revision, file = (part and unquote(part) for part in match.groups())
    is_folder = bool(file) and "/tree/" in text
    wanted = f"{file.rstrip('/')}/" if is_folder else file if file and file.endswith(".gguf") else None
    return (
        repo + (f"@{revision}" if revision not in (None, "main") else "") + (f":{wanted}" if wanted else "")
    )


def source_of_hub(hub_id: HubId) -> str:
    """The repository itself, whichever file of it was named."""
    return hub_id.repo + (f"@{hub_id.revision}" if hub_id.revision != "main" else "")


def parse_hub_id(text: str) -> HubId | None:
    """The parts of ``org/name[@revision][:file]``, or of its address; None for what cannot be one."""
    text = from_address(text)
    match = _ID.fullmatch(text)
    if match is None or ".." in text or "--" in match[1]:
        return None
    return HubId(match[1], match[2] or "main", match[3])


def hub_id_of(source: str) -> HubId | None:
    """The repository that a checkpoint's name stands for; None for a file or folder of this machine."""
    return None if os.path.lexists(source) else parse_hub_id(source)


def open_hub(
    source: str, hub_id: HubId, *, keep_arrays: Collection[str] = (), seconds: float = MAX_HUB_SECONDS
) -> Checkpoint:
    """Read the headers of a repository on the Hub, within ``seconds``. Raises :class:`CheckpointError`."""
    with open_repository(source, hub_id, seconds=seconds) as repository:
        return repository.read(hub_id.file, keep_arrays=keep_arrays)


@dataclass(frozen=True, slots=True)
class Repository:
    """A revision of a repository, whose models are read one by one; ``folder`` is where it is cached, None on
    the Hub itself, ``findings`` why it is read there."""

    store: HubStore | FolderStore
    commit: str
    folder: Path | None = None
    findings: tuple[Finding, ...] = ()

    def read(
        self,
        file: str | None,
        *,
        keep_arrays: Collection[str] = (),
        known: KnownArrays | None = None,
    ) -> Checkpoint:
        """The model of this GGUF file, or the only one. Raises :class:`CheckpointError`."""
        found = read_store(self.store, folder=self.folder, wanted=file, keep_arrays=keep_arrays, known=known)
        return replace(found, revision=self.commit, findings=(*found.findings, *self.findings))


@contextmanager
def open_repository(source: str, hub_id: HubId, *, seconds: float = MAX_HUB_SECONDS) -> Iterator[Repository]:
    """The files of a revision: on the Hub, or in the local cache where the Hub cannot be asked.

    Raises :class:`CheckpointError`.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        yield _cached(source, hub_id, error=None)
        return
    client = HubClient(hub_id.repo, seconds=seconds)
    try:
        listing = client.listing(hub_id.revision)
    except HubError as error:
        client.close()
        if error.code != "hub_unreachable":
            raise
        yield _cached(source, hub_id, error=error)
        return
    with HubStore(client, listing, source=source) as store:
        yield Repository(store, listing.commit)


def _cached(source: str, hub_id: HubId, *, error: HubError | None) -> Repository:
    """What the local cache holds of the revision; ``error`` is why the Hub could not be asked."""
    commit = _cached_commit(hub_id)
    if commit is None:
        raise error or CheckpointMissingError(
            f"{source} is not in the local cache, and HF_HUB_OFFLINE is set",
            code="hub_offline", where={"repository": hub_id.repo, "cache": str(cache_folder(hub_id.repo))},
        )  # fmt: skip
    folder = snapshot(hub_id.repo, commit)
    why = "HF_HUB_OFFLINE is set" if error is None else error.message
    finding = Finding(
        "hub_offline", "info", f"read from the local cache at revision {commit[:12]}: {why}",
        {"repository": hub_id.repo, "revision": commit},
    )  # fmt: skip
    return Repository(FolderStore(folder, source=source), commit, folder, (finding,))


def _cached_commit(hub_id: HubId) -> str | None:
    """The commit that the cache knows for a revision, if its snapshot is there."""
    commit = hub_id.revision
    if not COMMIT.fullmatch(commit):
        if not is_plain(commit):
            return None
        try:
            commit = (cache_folder(hub_id.repo) / "refs" / commit).read_text("ascii").strip()
        except (OSError, ValueError):
            return None
    known = COMMIT.fullmatch(commit) and snapshot(hub_id.repo, commit).is_dir()
    return commit if known else None
