"""The nodes of one server that are started from here, as one process: when one ends, all end.

Run as ``python -P -m ropewalk.serving.process.group GRACE_SECONDS MEMBERS`` in the place of an engine, under
the supervisor, so that its end, a detached start and an owner that is killed are matters of the supervisor.
``MEMBERS`` is JSON. An engine's own word on a lost node cannot be relied on: vLLM's first node ends with
status 0 when another one is killed, and the rest wait on (0.32.0). So every node is watched, and the first
that was lost is named in the group's log.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ropewalk.serving.process.processes import describe_exit_status, wait_until
from ropewalk.serving.process.supervisor import STOP_SIGNALS, die_with_parent, signal_pipe

CAUSE_SECONDS = 2.0  # between a node that ends in peace and the one whose death it noticed
_RUNS = re.compile(r"^group: node (\d+) at (\S+) is process (\d+); its log: (.+)$")
_LOST = re.compile(r"^group: node (\d+) at (\S+) (ended .+|cannot be started: .+); its log: (.+)$")


@dataclass(frozen=True, slots=True)
class Member:
    """A node that is started from here: itself, or the user's launcher that starts it elsewhere.

    ``env`` is added to the environment. A ``lifeline`` is a pipe on standard input for as long as the node is
    to run; one without it is sent a signal.
    """

    node: int
    address: str
    argv: tuple[str, ...]
    env: dict[str, str]
    log: str
    lifeline: bool = False

    def __str__(self) -> str:
        return f"node {self.node} at {self.address}"


_Started = tuple[Member, subprocess.Popen[bytes]]


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node as its process here, with its own log."""

    node: int
    address: str
    pid: int
    log_path: Path


@dataclass(frozen=True, slots=True)
class LostNode:
    """The node by which a group ended; ``how`` is ``ended by SIGKILL`` and the like."""

    node: int
    address: str
    how: str
    log_path: Path


def arguments_of(members: Iterable[Member], *, grace_seconds: float) -> tuple[str, ...]:
    """The command that runs them as a group; the first one's output is the group's."""
    words = json.dumps([asdict(member) for member in members])
    return (sys.executable, "-P", "-m", "ropewalk.serving.process.group", str(grace_seconds), words)


def running_nodes(lines: Iterable[str]) -> tuple[RunningNode, ...]:
    """The nodes that a group's log says were started."""
    found = (_RUNS.match(line) for line in lines)
    return tuple(RunningNode(int(m[1]), m[2], int(m[3]), Path(m[4])) for m in found if m)


def lost_node(lines: Iterable[str]) -> LostNode | None:
    """The node by which the group of this log ended; None where none did."""
    found = next((match for line in lines if (match := _LOST.match(line))), None)
    return LostNode(int(found[1]), found[2], found[3], Path(found[4])) if found else None


def main(arguments: Sequence[str]) -> int:
    """Start the members, wait until one ends or a stop is asked for, end the others."""
    grace_seconds, words = arguments
    signals = signal_pipe()
    started: list[_Started] = []
    lost = None
    for member in (Member(**fields) for fields in json.loads(words)):
        try:
            started.append((member, _start(member, is_first=not started)))
        except OSError as error:
            lost = _tell(member, f"cannot be started: {member.argv[0]}: {error.strerror}")
            break
        _tell(member, f"is process {started[-1][1].pid}")
    lost = lost or _wait(started, signals)
    _end([process for _, process in started], float(grace_seconds))
    return 1 if lost else 0


def _start(member: Member, *, is_first: bool) -> subprocess.Popen[bytes]:
    with Path(member.log).open("ab" if is_first else "wb") as log:
        return subprocess.Popen(
            member.argv,
            stdin=subprocess.PIPE if member.lifeline else subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **member.env},
            start_new_session=True,
            preexec_fn=die_with_parent(),  # safe: one thread here
        )


def _tell(member: Member, what: str) -> Member:
    sys.stdout.write(f"group: {member} {what}; its log: {member.log}\n")
    sys.stdout.flush()
    return member


def _wait(started: Sequence[_Started], signals: int) -> Member | None:
    """The member by which the group ends; None where a stop is asked for."""
    while True:
        ended = next((one for one in started if one[1].poll() is not None), None)
        if ended:
            member, process = _cause(ended, started)
            return _tell(member, f"ended {describe_exit_status(process.returncode)}")
        select.select([signals], [], [])
        if STOP_SIGNALS & set(os.read(signals, 64)):
            return None


def _cause(first: _Started, started: Sequence[_Started]) -> _Started:
    """One that failed, where one does in a moment; a node may end in peace because another is gone."""

    def failed() -> _Started | None:
        return next((one for one in (first, *started) if one[1].poll()), None)

    wait_until(lambda: failed() is not None, CAUSE_SECONDS)
    return failed() or first


def _end(processes: Sequence[subprocess.Popen[bytes]], grace_seconds: float) -> None:
    """Ask all that run to stop, and wait; what is left then is the supervisor's."""
    for process in processes:
        if process.stdin:
            process.stdin.close()
        elif process.poll() is None:
            process.terminate()
    wait_until(lambda: all(process.poll() is not None for process in processes), grace_seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
