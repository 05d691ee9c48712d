"""Measurements: made, kept, read again. Every method blocks, and is called in a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk import core
from ropewalk.tui.state import Opened

if TYPE_CHECKING:
    from ropewalk.measuring.records import Measurement, Trial
    from ropewalk.measuring.store import RunStore, RunSummary
    from ropewalk.planner.calibration import Calibration
    from ropewalk.planner.records import PlanRequest
    from ropewalk.serving.host.probe import Host
    from ropewalk.tui.control import Control


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be measured; ``resume`` continues a stored run by its own order."""

    context_len: int
    arms: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    resume: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a trial asked: the sentence that was hidden (None where the matter is everywhere), the question,
    and the opening words of the answer."""

    needle: str | None
    question: str
    opening: str


class Stored:
    """The runs in one file; None is the user's own."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._speeds: dict[tuple[str, PlanRequest], Calibration | None] = {}

    def runs(self) -> tuple[RunSummary, ...]:
        """The stored runs, the newest first. Raises :class:`RunStoreError`."""
        with self._store() as store:
            return store.runs()

    def run(self, run_id: str) -> Measurement:
        """A stored run. Raises :class:`RunStoreError`."""
        with self._store() as store:
            return store.load(run_id)

    def trials(self, run_id: str) -> tuple[Trial, ...]:
        """All trials of a stored run. Raises :class:`RunStoreError`."""
        with self._store() as store:
            return store.trials(run_id)

    def forget(self, run_id: str) -> None:
        """Delete a stored run. Raises :class:`RunStoreError`."""
        with self._store() as store:
            store.delete(run_id)
        self._speeds.clear()

    def report(self, run_id: str, kind: str) -> str:
        """A run as ``html``, ``md``, ``csv`` (its trials) or ``json``. Raises :class:`RunStoreError`."""
        from ropewalk.jsonio import dumps
        from ropewalk.measuring.store import trials_csv
        from ropewalk.report.html import measurement_html
        from ropewalk.report.markdown import measurement_markdown

        if kind == "csv":
            return trials_csv(self.trials(run_id))
        run = self.run(run_id)
        if kind == "json":
            return dumps(run)
        return measurement_html(run) if kind == "html" else measurement_markdown(run)

    def measure(self, opened: Opened, order: Order, control: Control) -> Measurement:
        """Measure until it is done or told to end. Raises :class:`RopewalkError`."""
        from ropewalk.measuring.measure import MeasureSettings, run_measurement
        from ropewalk.serving.engines import pick_engine

        build = pick_engine(core.default_engine(opened.inspection))
        try:
            with self._store() as store:
                return run_measurement(
                    opened.inspection,
                    model=opened.model,
                    build=build,
                    context_len=order.context_len,
                    arms=order.arms,
                    settings=MeasureSettings(**order.settings),
                    store=store,
                    on_event=control,
                    resume=order.resume,
                    start=control.start,
                )
        finally:
            self._speeds.clear()  # the run may have measured one

    def calibration(self, opened: Opened, request: PlanRequest, here: Host) -> Calibration | None:
        """The speed measured of just this service, at any length.

        Looked for once between measurements: it takes reading weights, which a slider does not wait for.
        """
        from ropewalk.measuring.calibrate import find_calibration

        service = (opened.source, replace(request, context_len=1))
        if service not in self._speeds:
            self._speeds[service] = find_calibration(
                opened.inspection, request, here, store=self._store_path()
            )
        return self._speeds[service]

    def asked(self, trial: Trial, depths: Sequence[float]) -> Asked | None:
        """What a trial asked, made again from its seed; None where the protocol has changed since."""
        from ropewalk.measuring.recall.seeded_random import SeededRandom
        from ropewalk.measuring.recall.tasks import TASKS

        task = TASKS.get(trial.task)
        if task is None:
            return None
        draft = task.draft(
            SeededRandom(trial.seed, task.name, trial.length), tuple(depths) if task.has_depth else (0.0,)
        )
        question = next((one for one in draft.questions if one.expected == trial.expected), None)
        if question is None:
            return None
        needle = None if question.needle is None else draft.needles[question.needle].text
        return Asked(needle, question.text, question.opening)

    def _store(self) -> RunStore:
        from ropewalk.measuring.store import RunStore

        return RunStore(self._store_path())

    def _store_path(self) -> Path:
        from ropewalk.measuring.store import default_store_path

        return self._path or default_store_path()
