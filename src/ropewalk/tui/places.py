"""Where checkpoints are found: the recent ones, a folder, the Hub's cache; and what completes a word."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_MAX_RECENT = 12
_MAX_ENTRIES = 2000  # of a folder; nobody reads further
_SUFFIXES = (".safetensors", ".gguf", ".index.json")
_MARKS = ("config.json", "model.safetensors", "model.safetensors.index.json")


@dataclass(frozen=True, slots=True)
class OpenEntry:
    """A thing to open: ``kind`` says whether it is a checkpoint or a folder to walk into.

    ``source`` is what is opened; ``bytes`` None where it is not known without reading.
    """

    name: str
    source: str
    kind: Literal["checkpoint", "folder"]
    bytes: int | None = None


def folder_entries(folder: Path) -> tuple[OpenEntry, ...]:
    """The parent, then checkpoints, then folders, by name. Raises OSError where it cannot be listed."""
    with os.scandir(folder) as scan:
        found = [entry for _, entry in zip(range(_MAX_ENTRIES), scan, strict=False)]
    entries = [
        one for entry in found if not entry.name.startswith(".") and (one := _entry(entry)) is not None
    ]
    entries.sort(key=lambda entry: (entry.kind == "folder", entry.name.lower()))
    return (OpenEntry("..", str(folder.parent), "folder"), *entries)


def _entry(entry: os.DirEntry[str]) -> OpenEntry | None:
    if entry.is_dir():
        is_checkpoint = any(os.path.exists(os.path.join(entry.path, mark)) for mark in _MARKS)
        return OpenEntry(entry.name, entry.path, "checkpoint" if is_checkpoint else "folder")
    if not entry.name.endswith(_SUFFIXES):
        return None
    try:
        size = entry.stat().st_size
    except OSError:
        size = None
    return OpenEntry(entry.name, entry.path, "checkpoint", size)


def cached_repositories() -> tuple[OpenEntry, ...]:
    """The models in the Hub's cache with their bytes on disk, the largest first."""
    from huggingface_hub import constants, scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        cache = scan_cache_dir(constants.HF_HUB_CACHE)
    except CacheNotFound:
        return ()
    models = [repo for repo in cache.repos if repo.repo_type == "model"]
    models.sort(key=lambda repo: -repo.size_on_disk)
    return tuple(OpenEntry(repo.repo_id, repo.repo_id, "checkpoint", repo.size_on_disk) for repo in models)


def completion(typed: str, *, known: Iterable[str] = ()) -> str | None:
    """The rest of a path or Hub id: a known source that begins so, else the first file or folder."""
    if not typed:
        return None
    for source in known:
        if source.startswith(typed) and source != typed:
            return source
    folder, _, start = typed.rpartition("/")
    try:
        names = sorted(os.listdir(os.path.expanduser(f"{folder}/") if folder or typed[0] == "/" else "."))
    except (OSError, ValueError):
        return None
    name = next((name for name in names if name.startswith(start) and (start or name[0] != ".")), None)
    if name is None:
        return None
    whole = f"{folder}/{name}" if "/" in typed else name
    return f"{whole}/" if os.path.isdir(os.path.expanduser(whole)) else whole


def recent(path: Path) -> tuple[str, ...]:
    """Sources opened before, the latest first; none where the list is absent or damaged."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    return tuple(item for item in data if isinstance(item, str)) if isinstance(data, list) else ()


def remember(path: Path, source: str) -> None:
    """Put a source first; a list that cannot be written is no reason to complain."""
    sources = [source, *(other for other in recent(path) if other != source)][:_MAX_RECENT]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(sources, indent=1), encoding="utf-8")
    except OSError:
        return
