"""A task on the node that runs it: the checkpoint held to its fingerprint, then measured as anywhere else.

Run as ``python -P -m ropewalk.measuring.cluster.node TASK_FILE RECORD_FILE`` by the local backend.
"""

from __future__ import annotations

import json
import platform
import socket
import sys
import tempfile
import traceback
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from ropewalk import jsonio
from ropewalk._version import __version__
from ropewalk.errors import EngineError, RopewalkError
from ropewalk.findings import Finding
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.measuring.arm_run import MeasuredServer, StartServer
from ropewalk.measuring.cluster.tasks import Task, TaskRecord
from ropewalk.measuring.fingerprint import fingerprint
from ropewalk.measuring.measure import MeasureSettings, run_measurement
from ropewalk.measuring.records import NodeSeen
from ropewalk.measuring.store import RunStore
from ropewalk.planner.records import Launch
from ropewalk.serving.engines import pick_engine
from ropewalk.serving.host.devices import this_machine
from ropewalk.units import KIB

LOG_BYTES = 256 * KIB  # of a server's log, its end: what a person reads after a failure


class _PortTakenError(Exception):
    """The port was free when it was chosen: not the engine's fault, so no result of its arm."""


def start_server(launch: Launch, log_path: Path) -> AbstractContextManager[MeasuredServer]:
    """Start a server; one whose port was taken meanwhile is not a failed engine."""
    from ropewalk.serving.launcher import start

    try:
        return start(launch, log_path=log_path)
    except EngineError as error:
        if error.code == "port_in_use":
            raise _PortTakenError(error.message) from error
        raise


def run_task(text: str, *, address: str | None = None, start: StartServer = start_server) -> str:
    """A task to its record, both JSON; never raises for what can go wrong on a node.

    ``address`` is the node's name in its cluster. An error of ours and a programming error become a
    finding, so that nobody tries them again.
    """
    given = json.loads(text)
    node = _node(given, address)
    record = TaskRecord(given["key"], node)
    try:
        _require_same_version(given["ropewalk"])
        record = _measured(jsonio.from_data(Task, given), node, start)
    except _PortTakenError as fault:
        record = replace(record, fault=str(fault))
    except RopewalkError as error:
        where = {**error.where, "node": node.name}
        record = replace(record, finding=Finding(error.code, "error", f"{node.name}: {error.message}", where))
    except Exception as error:
        what = f"{node.name}: {type(error).__name__}: {error}"
        where = {"node": node.name, "traceback": traceback.format_exc()}
        record = replace(record, finding=Finding("task_crashed", "error", what, where))
    return jsonio.dumps(record, indent=None)


def _measured(task: Task, node: NodeSeen, start: StartServer) -> TaskRecord:
    inspection = inspect_checkpoint(open_checkpoint(task.model))
    _require_same_weights(task, fingerprint(task.model, inspection.checkpoint.files))
    build = pick_engine(task.engine, path=task.engine_path)
    node = replace(node, engine=build)
    with (
        tempfile.TemporaryDirectory(prefix="ropewalk-task-") as folder,
        RunStore(Path(folder) / "runs.sqlite3") as store,
    ):
        store.create(task.frame)
        for trial in task.trials:
            store.add_trial(task.frame.run_id, trial)
        for span in task.losses:
            store.add_losses(task.frame.run_id, span)
        run = run_measurement(
            inspection,
            model=task.model,
            build=build,
            context_len=task.frame.target_len,
            arms=(task.arm,),
            settings=MeasureSettings(),
            store=store,
            resume=task.frame.run_id,
            start=start,
        )
        if run.status == "interrupted":
            return TaskRecord(task.key, node, fault="it was told to stop")
        return TaskRecord(
            key=task.key,
            node=node,
            result=run.arms[0],
            trials=store.trials(run.run_id),
            losses=store.losses(run.run_id),
            texts=run.texts,
            log=_log(store.log_path(run.run_id, task.arm)),
        )


def _node(given: dict[str, object], address: str | None) -> NodeSeen:
    return NodeSeen(
        host=socket.gethostname(),
        address=address,
        machine=this_machine(),
        python=platform.python_version(),
        ropewalk=__version__,
        attempt=int(str(given["attempt"])),
        task=str(given["key"]),
        whole=given["whole_node"] is True,
    )


def _require_same_version(asked: str) -> None:
    if asked != __version__:
        raise EngineError(
            f"ropewalk {__version__} is installed there, the run was begun with {asked}",
            code="node_version_differs",
            where={"begun_with": asked, "installed": __version__},
        )


def _require_same_weights(task: Task, found: str) -> None:
    expected = task.frame.checkpoint_fingerprint
    if found != expected:
        raise EngineError(
            f"{task.model} is not the checkpoint there that it is where the run was begun",
            code="node_checkpoint_differs",
            where={"file": task.model, "expected": expected, "found": found},
        )


def _log(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - LOG_BYTES))
        return stream.read().decode(errors="replace")


def main(arguments: list[str]) -> None:
    """Read a task from the first file, write its record to the second."""
    task, record = map(Path, arguments)
    record.write_text(run_task(task.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
