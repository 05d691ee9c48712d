"""A Ray campaign on two nodes that lose a worker and then a node; run alone in a network namespace.

``python ray_namespace.py MODEL FOLDER`` starts the cluster on two addresses of the loopback, measures with
``ropewalk measure --on ray://...``, and kills as it goes. The one line on standard output is JSON: the record
of the measurement, and what was left of the servers whose workers were killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

HEAD, OTHER = "10.9.0.1", "10.9.0.2"
RAY = str(Path(sys.executable).with_name("ray"))
SECONDS = 400.0  # until something must have happened, on a busy machine
ARMS = ("shipped", "yarn:1.5", "yarn:2")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Serving:
    """A task that has started its server: the worker, the address of its node, the engine."""

    worker: int
    node: str
    engine: int


def main(model: str, folder: Path) -> None:
    """Measure, kill, and say what came of it."""
    start_cluster(folder)
    store = folder / "runs.sqlite3"
    arms = [word for arm in ARMS for word in ("--arm", arm)]
    command = [sys.executable, "-m", "ropewalk", "measure", model, "--context", "1k", *arms, "--threads", "1"]
    command += ["--lengths", "256", "--depths", "0.5", "--store", str(store), "--json"]
    command += ["--on", f"ray://{HEAD}:10001"]
    with (folder / "record.json").open("w") as record:
        measuring = subprocess.Popen(command, stdout=record)
    try:
        killed = kill_on_the_way(measuring)
    finally:
        measuring.wait(SECONDS)
    status = measuring.wait(SECONDS)
    left = [command_of(pid) for pid in pids() if "ropewalk.serving" in command_of(pid)]
    record = json.loads((folder / "record.json").read_text())
    print(json.dumps({"status": status, "record": record, "killed": killed, "left": left}))


def kill_on_the_way(measuring: subprocess.Popen[bytes]) -> list[str]:
    """A worker, then a node, each while it serves; their servers must end with them. Returns the nodes."""
    first = wait_for(lambda: next(iter(serving()), None), measuring)
    os.kill(first.worker, signal.SIGKILL)
    wait_for(lambda: gone(first.engine), measuring)
    second = wait_for(lambda: next((one for one in serving() if one.node == OTHER), None), measuring)
    for pid in (raylet(OTHER), second.worker):  # a worker outlives its raylet by moments
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: gone(second.engine), measuring)
    return [first.node, second.node]


def start_cluster(folder: Path) -> None:
    """A head and one more node, each with one CPU, so that a node runs one task at a time."""
    head = ["--head", f"--node-ip-address={HEAD}", "--port=6399", "--include-dashboard=false"]
    head += [f"--temp-dir={folder / 'ray'}", "--min-worker-port=21000", "--max-worker-port=21999"]
    other = [f"--address={HEAD}:6399", f"--node-ip-address={OTHER}"]
    other += ["--min-worker-port=22000", "--max-worker-port=22999"]
    for words in (head, other):
        command = [RAY, "start", *words, "--num-cpus=1", "--object-store-memory=100000000"]
        subprocess.run(command, check=True, stdout=sys.stderr)


def serving() -> list[Serving]:
    """Every server that a task has running: engine below supervisor below worker below the raylet of a
    node."""
    found = []
    for supervisor in pids():
        words = command_of(supervisor)
        worker = parent_of(supervisor)
        if (
            "ropewalk.serving.process.supervisor" not in words
            or worker is None
            or not command_of(worker).startswith("ray::")
        ):
            continue
        node = parent_of(worker)
        engines = [pid for pid in pids() if parent_of(pid) == supervisor]
        if engines and node is not None:
            address = HEAD if f"--node_ip_address={HEAD}" in command_of(node) else OTHER
            found.append(Serving(worker, address, engines[0]))
    return found


def raylet(address: str) -> int:
    """The process that is a node of the cluster."""
    return next(
        pid
        for pid in pids()
        if "raylet/raylet" in command_of(pid) and f"--node_ip_address={address}" in command_of(pid)
    )


def wait_for(look: Callable[[], T | None], measuring: subprocess.Popen[bytes]) -> T:
    """What ``look`` finds, as soon as it finds something, while it is still measured."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and measuring.poll() is None:
        if found := look():
            return found
        time.sleep(0.05)
    raise TimeoutError("what was waited for did not happen")


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    return pid not in pids() or command_of(pid) == ""


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return None


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
