"""Measurements go on: those that a client asks for again, and those that the service left when it ended."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

from ropewalk import core
from ropewalk.api.jobs import STOP_SECONDS
from ropewalk.api.orders import MeasureOrder
from ropewalk.api.pending import clear_pending, pending_runs
from ropewalk.api.state import ServiceState
from ropewalk.errors import RopewalkError, RunActiveError
from ropewalk.measuring.settings import RunRequest

_PAUSE_SECONDS = 0.5


def order_of(state: ServiceState, run: str) -> MeasureOrder:
    """To go on with a stored run; its target, arms and settings are its own.

    Raises :class:`RunStoreError`, and what is raised for a checkpoint that may not be named.
    """
    with core.open_store(state.settings.store) as store:
        stored = store.load(run)
    return MeasureOrder(
        source=state.sources.address(stored.checkpoint),
        request=RunRequest(stored.target_len, resume=stored.run_id),
        store=str(state.settings.store),
    )


async def resume_runs(state: ServiceState) -> None:
    """Resume what was under way when an earlier service ended; what cannot be is told and left."""
    store = state.settings.store
    for run_id in await state.in_thread(pending_runs, store):
        try:
            await _until_free(state, run_id)
            await state.jobs.measure(await state.in_thread(order_of, state, run_id))
        except RopewalkError as error:
            print(f"run {run_id} does not go on: {error.message}", file=sys.stderr, flush=True)  # noqa: T201
            if error.code != RunActiveError.default_code:  # else another service is at it
                clear_pending(store, run_id)


async def _until_free(state: ServiceState, run_id: str) -> None:
    """The worker of a service that was killed needs a moment to stop its engine."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            while await state.in_thread(_is_measured, state.settings.store, run_id):
                await asyncio.sleep(_PAUSE_SECONDS)


def _is_measured(store: Path, run_id: str) -> bool:
    with core.open_store(store) as runs:
        return runs.active_owner(run_id) is not None
