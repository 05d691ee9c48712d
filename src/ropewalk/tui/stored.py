"""Measurements: made, kept, read again. Every method blocks, and is called in a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk import core
from ropewalk.tui.state import Opened

if TYPE_CHECKING:
    from ropewalk.serving.records import Measurement, Trial
    from ropewalk.serving.store import RunStore, RunSummary
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

    def report(self, run_id: str, kind: str) -> str:
        """A run as ``html``, ``md``, ``csv`` (its trials) or ``json``. Raises :class:`RunStoreError`."""
        from ropewalk.jsonio import dumps
        from ropewalk.report.html import measurement_html
        from ropewalk.report.markdown import measurement_markdown
        from ropewalk.serving.store import trials_csv

        if kind == "csv":
            return trials_csv(self.trials(run_id))
        run = self.run(run_id)
        if kind == "json":
            return dumps(run)
        return measurement_html(run) if kind == "html" else measurement_markdown(run)

    def measure(self, opened: Opened, order: Order, control: Control) -> Measurement:
        """Measure until it is done or told to end. Raises :class:`RopewalkError`."""
        from ropewalk.serving.engines import pick_engine
        from ropewalk.serving.measure import MeasureSettings, run_measurement

        build = pick_engine(core.default_engine(opened.inspection))
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

    def asked(self, trial: Trial, depths: Sequence[float]) -> Asked | None:
        """What a trial asked, made again from its seed; None where the protocol has changed since."""
        from ropewalk.serving.recall.dice import Dice
        from ropewalk.serving.recall.tasks import TASKS

        task = TASKS.get(trial.task)
        if task is None:
            return None
        draft = task.draft(
            Dice(trial.seed, task.name, trial.length), tuple(depths) if task.has_depth else (0.0,)
        )
        question = next((one for one in draft.questions if one.expected == trial.expected), None)
        if question is None:
            return None
        needle = None if question.needle is None else draft.needles[question.needle].text
        return Asked(needle, question.text, question.opening)

    def _store(self) -> RunStore:
        from ropewalk.serving.store import RunStore, default_store_path

        return RunStore(self._path or default_store_path())
