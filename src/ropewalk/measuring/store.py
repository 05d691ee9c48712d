"""Past measurements in one SQLite file; every trial is there as soon as it has ended.

A run is kept as what was seen: its frame, its arms without their cells, its trials, the losses that were
read. Cells, curves, effective contexts, speed and the comparison are derived again whenever a run is loaded.
A run that is stored as running while its process is gone was cut off, and reads as interrupted.
"""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from ropewalk import jsonio
from ropewalk.errors import RunMissingError, RunStoreError
from ropewalk.measuring.assemble import assemble
from ropewalk.measuring.loss.records import LossSpan
from ropewalk.measuring.records import ArmResult, Measurement, RunStatus, Trial
from ropewalk.planner.calibration import Calibration
from ropewalk.serving.process.processes import is_alive, is_of_earlier_boot, pid_space, start_time


@dataclass(frozen=True, slots=True)
class Owner:
    """A process by its machine, its id and when it began: the id alone could be another's by now.

    ``space`` is :func:`pid_space`'s, None from a version that did not note it.
    """

    host: str
    pid: int
    start_time: str | None
    space: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether it is of this machine and PID namespace, so that it can be looked at."""
        return self.host == platform.node() and self.space in (None, pid_space())

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, however that came about; False where that cannot be seen from here."""
        if self.is_here:
            return not (is_alive(self.pid) and start_time(self.pid) == self.start_time)
        return self.space is not None and is_of_earlier_boot(self.host, self.space)


def this_process() -> Owner:
    """The owner record of the process that asks."""
    return Owner(platform.node(), os.getpid(), start_time(os.getpid()), pid_space())


LOCK_SECONDS = 5.0
_BUSY_SECONDS = 0.01
Row = tuple[Any, ...]

# Never edited, only added to: user_version counts those that a file has seen.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE runs (run_id TEXT PRIMARY KEY, record TEXT NOT NULL)",
        "CREATE TABLE arms (run_id TEXT NOT NULL, arm TEXT NOT NULL, position INTEGER NOT NULL, "
        "record TEXT NOT NULL, PRIMARY KEY (run_id, arm))",
        "CREATE TABLE trials (position INTEGER PRIMARY KEY, run_id TEXT NOT NULL, arm TEXT NOT NULL, "
        "key TEXT NOT NULL, record TEXT NOT NULL, UNIQUE (run_id, arm, key))",
    ),
    ("CREATE TABLE calibrations (key TEXT PRIMARY KEY, run_id TEXT NOT NULL, record TEXT NOT NULL)",),
    ("ALTER TABLE runs ADD COLUMN owner TEXT",),
    (
        "CREATE TABLE losses (position INTEGER PRIMARY KEY, run_id TEXT NOT NULL, arm TEXT NOT NULL, "
        "key TEXT NOT NULL, record TEXT NOT NULL, UNIQUE (run_id, arm, key))",
    ),
)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One row of the list of runs; of one whose record is damaged only the id and the trials are known."""

    run_id: str
    status: RunStatus | Literal["unreadable"]
    created: str
    checkpoint: str
    target_len: int
    arms: tuple[str, ...]
    trials: int


def default_store_path() -> Path:
    """``runs.sqlite3`` in the user's data folder."""
    import platformdirs

    return platformdirs.user_data_path("ropewalk") / "runs.sqlite3"


class RunStore:
    """The runs in one file; a context manager. Every method raises :class:`RunStoreError`.

    The file is made where there is none. A store that is locked by another process for longer than
    ``lock_seconds``, cannot be written, is damaged or comes from a newer version is refused.
    """

    def __init__(self, path: Path, *, lock_seconds: float = LOCK_SECONDS) -> None:
        self.path = path
        with self._guard():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                path, timeout=lock_seconds, isolation_level=None, check_same_thread=False
            )
            try:
                self._write_ahead(lock_seconds)
                self._db.execute("PRAGMA synchronous = FULL")
                self._migrate()
            except BaseException:
                self._db.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; idempotent."""
        self._db.close()

    def create(self, run: Measurement) -> None:
        """A new run, without arms and trials."""
        self._write(
            "INSERT INTO runs (run_id, record, owner) VALUES (?, ?, ?)", run.run_id, _frame(run), _owner(run)
        )

    def update(self, run: Measurement) -> None:
        """Write a run's status, settings and findings anew; arms and trials stay as they are."""
        self._write(
            "UPDATE runs SET record = ?, owner = ? WHERE run_id = ?", _frame(run), _owner(run), run.run_id
        )

    def save_arm(self, run_id: str, result: ArmResult, *, position: int) -> None:
        """What was seen of an arm so far; replaces what was saved of it before."""
        bare = replace(result, cells=(), speed=(), speed_fit=None, losses=())
        self._write(
            "INSERT OR REPLACE INTO arms (run_id, arm, position, record) VALUES (?, ?, ?, ?)",
            *(run_id, result.arm, position, jsonio.dumps(bare, indent=None)),
        )

    def add_trial(self, run_id: str, trial: Trial) -> None:
        """One ended trial; one of the same arm and key is replaced."""
        self._write(
            "INSERT OR REPLACE INTO trials (run_id, arm, key, record) VALUES (?, ?, ?, ?)",
            *(run_id, trial.arm, trial.key, jsonio.dumps(trial, indent=None)),
        )

    def add_losses(self, run_id: str, span: LossSpan) -> None:
        """Losses as they were read; those of the same arm and key are replaced."""
        self._write(
            "INSERT OR REPLACE INTO losses (run_id, arm, key, record) VALUES (?, ?, ?, ?)",
            *(run_id, span.arm, span.key, jsonio.dumps(span, indent=None)),
        )

    def save_calibration(self, run_id: str, calibration: Calibration, *, key: str) -> None:
        """The speed that a run measured; replaces an older one of the same key."""
        self._write(
            "INSERT OR REPLACE INTO calibrations (key, run_id, record) VALUES (?, ?, ?)",
            *(key, run_id, jsonio.dumps(calibration, indent=None)),
        )

    def has_calibrations(self) -> bool:
        """Whether any speed was measured."""
        return bool(self._rows("SELECT 1 FROM calibrations LIMIT 1"))

    def calibration(self, key: str) -> Calibration | None:
        """The latest speed measured under this key."""
        rows = self._rows("SELECT record FROM calibrations WHERE key = ?", key)
        with self._guard():
            return jsonio.loads(Calibration, rows[0][0]) if rows else None

    def delete(self, run_id: str) -> None:
        """Forget a run, its trials, its logs and what it calibrated."""
        run_id = self.find(run_id)
        arms = self._rows("SELECT arm FROM arms WHERE run_id = ?", run_id)
        with self._guard(), self._transaction():
            for table in ("calibrations", "losses", "trials", "arms", "runs"):
                self._db.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))  # noqa: S608  our names
        with self._guard():
            for (arm,) in arms:
                self.log_path(run_id, arm).unlink(missing_ok=True)

    def find(self, prefix: str) -> str:
        """The one run whose id begins so; ``last`` is the newest."""
        if prefix == "last":
            return self._newest()
        rows = self._rows("SELECT run_id FROM runs WHERE substr(run_id, 1, ?) = ?", len(prefix), prefix)
        names = [name for (name,) in rows]
        if prefix in names:
            return prefix
        if len(names) != 1:
            what = f"{len(names)} runs begin" if names else "no run begins"
            raise RunMissingError(f"{what} with {prefix!r}", where={"run": prefix, "store": str(self.path)})
        return str(names[0])

    def _newest(self) -> str:
        listed = self.runs()
        if not listed:
            raise RunMissingError(
                "no run is stored",
                where={"store": str(self.path), "hint": "make one: ropewalk measure, ropewalk demo"},
            )
        return listed[0].run_id

    def load(self, run_id: str) -> Measurement:
        """A run as it stands, finished or not; ``run_id`` may be shortened."""
        frame = self.frame(run_id)
        rows = self._rows("SELECT record FROM arms WHERE run_id = ? ORDER BY position", frame.run_id)
        with self._guard():
            arms = [jsonio.loads(ArmResult, text) for (text,) in rows]
        return assemble(frame, arms, self.trials(frame.run_id), self.losses(frame.run_id))

    def frame(self, run_id: str) -> Measurement:
        """A run as it was begun: without arms and without anything that is derived from its trials."""
        ((record, owner),) = self._rows("SELECT record, owner FROM runs WHERE run_id = ?", self.find(run_id))
        with self._guard():
            run = jsonio.loads(Measurement, record)
            return replace(run, status=_status(run.status, owner))

    def owner(self, run_id: str) -> Owner | None:
        """The process that measures a run; None where none does, or none was noted."""
        ((owner,),) = self._rows("SELECT owner FROM runs WHERE run_id = ?", self.find(run_id))
        with self._guard():
            return jsonio.loads(Owner, owner) if owner else None

    def active_owner(self, run_id: str) -> Owner | None:
        """The process of this machine that measures a run now; None where none does."""
        owner = self.owner(run_id)
        return owner if owner is not None and owner.is_here and not owner.is_gone else None

    def log_path(self, run_id: str, arm: str) -> Path:
        """Where the log of an arm's server belongs: beside the store."""
        name = re.sub(r"[^\w.]", "-", f"{run_id}-{arm}")
        return self.path.parent / "logs" / f"{name}.log"

    def trials(self, run_id: str) -> tuple[Trial, ...]:
        """All trials of a run in the order in which they ended."""
        rows = self._rows("SELECT record FROM trials WHERE run_id = ? ORDER BY position", run_id)
        with self._guard():
            return tuple(jsonio.loads(Trial, text) for (text,) in rows)

    def losses(self, run_id: str) -> tuple[LossSpan, ...]:
        """All losses of a run in the order in which they were read."""
        rows = self._rows("SELECT record FROM losses WHERE run_id = ? ORDER BY position", run_id)
        with self._guard():
            return tuple(jsonio.loads(LossSpan, text) for (text,) in rows)

    def runs(self) -> tuple[RunSummary, ...]:
        """All runs, the newest first."""
        arms = _grouped(self._rows("SELECT run_id, arm FROM arms ORDER BY position"))
        counts: dict[str, int] = dict(self._rows("SELECT run_id, count(*) FROM trials GROUP BY run_id"))
        listed = []
        for run_id, record, owner in self._rows("SELECT run_id, record, owner FROM runs"):
            try:
                listed.append(_summary(json.loads(record), owner, arms=arms, counts=counts))
            except (ValueError, TypeError, KeyError):  # one damaged row must not hide the others
                listed.append(RunSummary(str(run_id), "unreadable", "", "", 0, (), counts.get(run_id, 0)))
        return tuple(sorted(listed, key=lambda run: run.created, reverse=True))

    def _migrate(self) -> None:
        ((version,),) = self._db.execute("PRAGMA user_version")
        if version > len(MIGRATIONS):
            raise RunStoreError(
                f"{self.path} was written by a newer version of ropewalk",
                where={"store": str(self.path), "version": version, "known": len(MIGRATIONS)},
            )
        if version == len(MIGRATIONS):
            return
        with self._transaction():  # another process may have been first
            ((version,),) = self._db.execute("PRAGMA user_version")
            for statements in MIGRATIONS[version:]:
                for statement in statements:
                    self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {max(version, len(MIGRATIONS))}")

    def _write_ahead(self, lock_seconds: float) -> None:
        """Set once in a file's life. SQLite does not wait for others who do so at the same moment."""
        deadline = time.monotonic() + lock_seconds
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > deadline:
                    raise
                time.sleep(_BUSY_SECONDS)
            else:
                return

    def _write(self, statement: str, *values: object) -> None:
        with self._guard(), self._transaction():
            self._db.execute(statement, values)

    def _rows(self, statement: str, *values: object) -> list[Row]:
        with self._guard():
            return self._db.execute(statement, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """SQLite's and the system's complaints as ours; a row that is no record counts as damage."""
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            raise RunStoreError(
                f"the run store {self.path} cannot be used: {error}", where={"store": str(self.path)}
            ) from error


def trials_csv(trials: Iterable[Trial]) -> str:
    """Trials as CSV with a header, one line each."""
    names = [field.name for field in fields(Trial)]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for trial in trials:
        row = jsonio.to_data(trial)
        writer.writerow({**row, "expected": " ".join(trial.expected)})
    return text.getvalue()


def _frame(run: Measurement) -> str:
    return jsonio.dumps(replace(run, arms=(), comparison=None), indent=None)


def _grouped(rows: Iterable[Row]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for run_id, arm in rows:
        grouped.setdefault(run_id, []).append(arm)
    return grouped


def _owner(run: Measurement) -> str | None:
    """This process, for as long as it measures."""
    return jsonio.dumps(this_process(), indent=None) if run.status == "running" else None


def _status(stored: RunStatus, owner: str | None) -> RunStatus:
    if stored != "running":
        return stored
    is_lost = owner is None or jsonio.loads(Owner, owner).is_gone  # None: of a version that noted no process
    return "interrupted" if is_lost else "running"


def _summary(
    record: Mapping[str, Any], owner: str | None, *, arms: Mapping[str, list[str]], counts: Mapping[str, int]
) -> RunSummary:
    run_id = record["run_id"]
    return RunSummary(
        run_id=run_id,
        status=_status(record["status"], owner),
        created=record["created"],
        checkpoint=record["checkpoint"],
        target_len=record["target_len"],
        arms=tuple(arms.get(run_id, ())),
        trials=counts.get(run_id, 0),
    )
