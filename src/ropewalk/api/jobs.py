"""Runs measurements and starts of servers, each in a process of its own, and keeps what they tell.

A process of its own leaves the service free to answer, can be stopped in the middle of a prompt, and ends
with the service whatever becomes of that: its standard input closes then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ropewalk import core, jsonio
from ropewalk.api.orders import MeasureOrder, Order, ServeOrder
from ropewalk.api.pending import clear_pending, jobs_dir, mark_pending
from ropewalk.api.problems import RefusedError
from ropewalk.api.settings import ApiSettings
from ropewalk.units import MIB

STOP_SECONDS = 60.0  # engines get their own time to stop, see ropewalk.serving.process.engine_process
_WORKER = (sys.executable, "-P", "-m", "ropewalk.api.worker")
_LINE_BYTES = 64 * MIB
_LAST = frozenset({"run_ended", "ready", "problem"})
_STOPPED = {"status": 503, "code": "job_stopped", "message": "the job was stopped", "where": {}}
_LOST = {"status": 500, "code": "job_lost", "message": "the job's process ended without a word", "where": {}}

OnEnd = Callable[["Job"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class JobEvent:
    """``number`` counts from 1; ``data`` is a record as JSON on one line."""

    number: int
    name: str
    data: str


class Job:
    """A worker and every event that it told."""

    def __init__(self, order: Order, process: asyncio.subprocess.Process, on_end: OnEnd) -> None:
        self.order = order
        self.events: list[JobEvent] = []
        self.is_ended = False
        self._process = process
        self._is_stopped = False
        self._news = asyncio.Condition()
        self._reading = asyncio.create_task(self._read(on_end))

    async def after(self, number: int, *, seconds: float | None = None) -> Sequence[JobEvent]:
        """The events after this one, once there are any; none where it has ended or the time is up."""
        async with self._news:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait_for(lambda: self.is_ended or len(self.events) > number)
        return self.events[number:]

    async def last(self) -> JobEvent:
        """The event that ends the job, once it does."""
        await asyncio.shield(self._reading)
        return self.events[-1]

    def stop(self) -> None:
        """Have the worker stop if it has not; it is killed where it does not within :data:`STOP_SECONDS`."""
        if self.is_ended:
            return
        self._is_stopped = True
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.close()
        asyncio.get_running_loop().call_later(STOP_SECONDS, self._kill)

    def _kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()

    async def _read(self, on_end: OnEnd) -> None:
        assert self._process.stdout is not None  # noqa: S101
        try:
            while line := await self._process.stdout.readline():
                name, _, data = line.decode().rstrip("\n").partition("\t")
                await self._note(name, data)
        except ValueError:  # a line over the limit
            self._kill()
        await self._process.wait()
        if not self.events or self.events[-1].name not in _LAST:
            await self._note("problem", json.dumps(_STOPPED if self._is_stopped else _LOST))
        await on_end(self)
        async with self._news:
            self.is_ended = True
            self._news.notify_all()

    async def _note(self, name: str, data: str) -> None:
        async with self._news:
            self.events.append(JobEvent(len(self.events) + 1, name, data))
            self._news.notify_all()


class Jobs:
    """The measurements and servers that run now; a measurement is found by the id of its run."""

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._active: set[Job] = set()
        self._runs: dict[str, Job] = {}
        self._starting = asyncio.Lock()
        self._is_closed = False

    def count(self, kind: type[Order]) -> int:
        """How many of a kind are under way."""
        return sum(isinstance(job.order, kind) for job in self._active)

    def run(self, run_id: str) -> Job | None:
        """The job that measures this run, if one does here."""
        return self._runs.get(run_id)

    async def measure(self, order: MeasureOrder) -> str:
        """Begin to measure; returns the run's id once it is stored. Raises what the worker raised before."""
        async with self._starting:
            self._require_room("measurements", self.count(MeasureOrder), self._settings.max_jobs)
            job = await self._start(order)
        try:
            first = (await job.after(0))[0]
        except BaseException:  # the client left
            job.stop()
            raise
        run_id: str = record_of(first)["run_id"]
        if not job.is_ended:
            self._runs[run_id] = job
            mark_pending(self._settings.store, run_id)
        return run_id

    async def serve(self, order: ServeOrder) -> Job:
        """Begin to start a server."""
        async with self._starting:
            running = len(await asyncio.to_thread(core.running_servers)) + self.count(ServeOrder)
            self._require_room("servers", running, self._settings.max_servers)
            return await self._start(order)

    async def close(self) -> None:
        """Stop every job and wait until none is left."""
        self._is_closed = True
        jobs = tuple(self._active)
        for job in jobs:
            job.stop()
        await asyncio.gather(*(job.last() for job in jobs))

    async def _start(self, order: Order) -> Job:
        folder = jobs_dir(self._settings.store)
        folder.mkdir(parents=True, exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            *_WORKER,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=folder,
            start_new_session=True,  # Ctrl-C is for the service, which stops its jobs
            limit=_LINE_BYTES,
        )
        assert process.stdin is not None  # noqa: S101
        process.stdin.write(jsonio.dumps(order, indent=None).encode() + b"\n")
        job = Job(order, process, self._forget)
        self._active.add(job)
        return job

    async def _forget(self, job: Job) -> None:
        self._active.discard(job)
        for run_id in [run_id for run_id, other in self._runs.items() if other is job]:
            del self._runs[run_id]
            if not self._is_closed:  # else the next service goes on with it
                clear_pending(self._settings.store, run_id)

    def _require_room(self, what: str, number: int, limit: int) -> None:
        if self._is_closed:
            raise RefusedError("the service is stopping", status=503, code="stopping")
        if number >= limit:
            raise RefusedError(
                f"there are {number} {what} already, and no more than {limit} at a time",
                status=429, code="too_many_jobs", where={"limit": limit}, headers={"Retry-After": "60"},
            )  # fmt: skip


def record_of(event: JobEvent) -> dict[str, Any]:
    """What an event tells. Raises :class:`RefusedError` for a problem."""
    data: dict[str, Any] = json.loads(event.data)
    if event.name == "problem":
        raise RefusedError(data["message"], status=data["status"], code=data["code"], where=data["where"])
    return data
