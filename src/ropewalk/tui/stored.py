"""Measurements: made, kept, read again. Every method blocks, and is called in a worker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk import core
from ropewalk.tui.state import Opened

if TYPE_CHECKING:
    from ropewalk.measuring.records import Measurement, Trial
    from ropewalk.measuring.run_pair import RunPair
    from ropewalk.measuring.settings import RunRequest
    from ropewalk.measuring.store import RunStore, RunSummary
    from ropewalk.tui.control import Control


class Stored:
    """The runs in one file; None is the user's own."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path

    def runs(self) -> tuple[RunSummary, ...]:
        """The stored runs, the newest first. Raises :class:`RunStoreError`."""
        with self._store() as store:
            return store.runs()

    def run(self, run_id: str) -> Measurement:
        """A stored run. Raises :class:`RunStoreError`."""
        with self._store() as store:
            return store.load(run_id)

    def pair(self, run_id: str, other_id: str) -> RunPair:
        """Two stored runs side by side. Raises :class:`RunStoreError`."""
        with self._store() as store:
            return core.pair_runs(store, run_id, other_id)

    def trials(self, run_id: str) -> tuple[Trial, ...]:
        """All trials of a stored run. Raises :class:`RunStoreError`."""
        with self._store() as store:
            return store.trials(run_id)

    def forget(self, run_id: str) -> None:
        """Delete a stored run. Raises :class:`RunStoreError`."""
        with self._store() as store:
            store.delete(run_id)

    def report(self, run_id: str, kind: str) -> str:
        """A run as ``html``, ``md``, ``csv`` (its trials) or ``json``. Raises :class:`RunStoreError`."""
        from ropewalk.jsonio import dumps
        from ropewalk.report.html import measurement_html
        from ropewalk.report.markdown import measurement_markdown

        if kind == "csv":
            return core.trials_csv(self.trials(run_id))
        run = self.run(run_id)
        if kind == "json":
            return dumps(run)
        return measurement_html(run) if kind == "html" else measurement_markdown(run)

    def measure(self, opened: Opened, request: RunRequest, control: Control) -> Measurement:
        """Measure until it is done or told to end. Raises :class:`RopewalkError`."""
        return core.measure(
            opened.inspection, request, store=self.path, on_event=control, start=control.start
        )

    def _store(self) -> RunStore:
        return core.open_store(self.path)
