"""Two things of a kind, or a plan and a log, side by side: only what differs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk.core.arguments import Source, source_of
from ropewalk.core.runs import default_store_path
from ropewalk.errors import RunMissingError, UsageError
from ropewalk.limits import MAX_RECORD_BYTES

if TYPE_CHECKING:
    from ropewalk.differences import Differences, Side


def compare(a: Source, b: Source, *, store: Path | None = None) -> Differences:
    """What differs between two checkpoints, plans, runs or logs.

    Each is a checkpoint (as :func:`inspect` takes it), a file with a plan or a measurement as JSON, the log
    of a server, or the id of a run in ``store``. A plan and a log, or a run, are compared in what both tell.
    No weight is read. Raises :class:`CheckpointError`, and :class:`UsageError` where the two have nothing in
    common.
    """
    from ropewalk.differences import differences

    sides = [_side(os.fspath(source_of(one)), store or default_store_path()) for one in (a, b)]
    kinds = {side.compared.kind for side in sides}
    if "checkpoint" in kinds and len(kinds) > 1:
        first, second = (side.compared for side in sides)
        raise UsageError(
            f"{first.name} is a {first.kind} and {second.name} a {second.kind}: a checkpoint is compared "
            "with a checkpoint",
            where={"a": first.kind, "b": second.kind},
        )
    return differences(*sides)


def _side(name: str, store: Path) -> Side:
    """What a name stands for: a record or a log in a file, a run of the store, else a checkpoint."""
    path = Path(name)
    if path.is_file() and path.suffix not in (".gguf", ".safetensors"):
        found = _record(path) or _log(path)
        if found is not None:
            return found
    elif not path.exists() and "/" not in name and (stored := _stored(name, store)):
        return stored
    return _checkpoint(name)


def _checkpoint(name: str) -> Side:
    from ropewalk.core.reading import inspect, open_checkpoint
    from ropewalk.differences import checkpoint_side

    opened = open_checkpoint(name)
    return checkpoint_side(name, opened, inspect(opened))


def _record(path: Path) -> Side | None:
    """A plan or a measurement as ``--json`` writes it; None for another file.

    Raises :class:`UsageError` for a record that cannot be compared.
    """
    from pydantic import ValidationError

    from ropewalk import jsonio
    from ropewalk.differences import plan_side, run_side
    from ropewalk.measuring.records import Measurement
    from ropewalk.planner.records import Plan

    if path.suffix != ".json" or path.stat().st_size > MAX_RECORD_BYTES:
        return None
    try:
        data = json.loads(path.read_bytes())
    except ValueError:
        return None
    schema = data.get("schema", "") if isinstance(data, dict) else ""
    if not str(schema).startswith("ropewalk."):
        return None
    try:
        if schema == "ropewalk.plan/1":
            return plan_side(str(path), jsonio.from_data(Plan, data))
        if schema == "ropewalk.measurement/1":
            return run_side(str(path), jsonio.from_data(Measurement, data), ())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise UsageError(
            f"{path} is no {schema}: {first['msg']} ({'.'.join(map(str, first['loc']))})",
            where={"file": str(path), "schema": schema},
        ) from None
    raise UsageError(
        f"{path} is a {schema}; plans and measurements are compared",
        where={"file": str(path), "schema": schema},
    )


def _log(path: Path) -> Side | None:
    """The log of a server; None for a file that is none."""
    from ropewalk.checking.foreign_log import open_log
    from ropewalk.differences import log_side

    if path.suffix == ".json":
        return None
    try:
        return log_side(str(path), open_log(path))
    except UsageError:
        return None


def _stored(name: str, store: Path) -> Side | None:
    from ropewalk.differences import run_side
    from ropewalk.measuring.store import RunStore

    if not store.is_file():
        return None
    with RunStore(store) as runs:
        try:
            run = runs.load(name)
        except RunMissingError:
            return None
        return run_side(run.run_id, run, runs.trials(run.run_id))
