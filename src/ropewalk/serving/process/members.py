"""Who starts which node of a group: this machine, the user's own launcher, or a person.

A launcher is a template such as ``ssh {address}``: words as a shell would split them, of which ``{address}``
and ``{node}`` are replaced. The node's command follows as one word, read by a POSIX shell over there. A word
``{argv}`` is replaced by the command's own words instead, for a launcher that starts programs itself
(``srun --nodelist {address} {argv}``). No shell runs here.
"""

from __future__ import annotations

import shlex
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from ropewalk.errors import UsageError
from ropewalk.planner.records import Launch, NodeLaunch
from ropewalk.serving.process.group import Member

_ARGV = "{argv}"
# A signal would end the launcher and not what it started elsewhere; the end of its input, however it comes
# about, ends the node and then the launcher.
_LIFELINE = (
    "exec 3<&0; {command} </dev/null 3<&- & node=$!; (cat <&3; kill $node) >/dev/null 2>&1 & watch=$!; "
    "wait $node; status=$?; kill $watch; exit $status"
)


def members_of(
    launch: Launch, *, program: Sequence[str], launcher: str | None, log_path: Path
) -> tuple[Member, ...]:
    """The nodes that are started from here; ``program`` goes before the arguments on this machine.

    Node 0 writes to ``log_path``, each of the others to one of its own beside it.
    """
    return tuple(
        _member(node, program, launcher, _log_of(log_path, node.node)) for node in _ours(launch, launcher)
    )


def by_hand(launch: Launch, launcher: str | None) -> tuple[NodeLaunch, ...]:
    """The nodes that a person has to start."""
    ours = {node.node for node in _ours(launch, launcher)}
    return tuple(node for node in launch.nodes if node.node not in ours)


def nodes_here(launch: Launch, launcher: str | None) -> tuple[int, ...]:
    """The nodes that take memory and devices of this machine."""
    return tuple(node.node for node in launch.nodes if _is_started_here(node, launcher))


def launched(template: str, node: NodeLaunch) -> tuple[str, ...]:
    """The launcher with the node's command, word by word. Raises :class:`UsageError` for a bad template."""
    words = [
        word.replace("{address}", node.address).replace("{node}", str(node.node))
        for word in launcher_words(template)
    ]
    settings = [f"{name}={value}" for name, value in node.env.items()]
    command = ("env", *settings, *shlex.split(node.program), *node.argv)
    if _ARGV not in words:
        snippet = _LIFELINE.format(command=shlex.join(command))
        return (*words, shlex.join(("sh", "-c", snippet)))
    at = words.index(_ARGV)
    return (*words[:at], *command, *words[at + 1 :])


def launcher_words(template: str) -> list[str]:
    """The template's own words. Raises :class:`UsageError` where there are none, or a quote is open."""
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise UsageError(f"--launcher {template!r}: {error}", where={"flag": "--launcher"}) from error
    if not words:
        raise UsageError("--launcher is empty", where={"flag": "--launcher"})
    return words


def is_here(address: str) -> bool:
    """Whether the address is one of this machine's: only those can be bound."""
    try:
        found = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return any(_binds(family, where) for family, _, _, _, where in found)


def _ours(launch: Launch, launcher: str | None) -> Iterator[NodeLaunch]:
    return (node for node in launch.nodes if launcher is not None or _is_started_here(node, launcher))


def _is_started_here(node: NodeLaunch, launcher: str | None) -> bool:
    """Node 0 is; another one where it is this machine and no launcher is to start it."""
    return node.node == 0 or (launcher is None and is_here(node.address))


def _member(node: NodeLaunch, program: Sequence[str], launcher: str | None, log: Path) -> Member:
    if launcher is None or node.node == 0:
        return Member(node.node, node.address, (*program, *node.argv), node.env, str(log))
    by_shell = _ARGV not in launcher_words(launcher)
    return Member(node.node, node.address, launched(launcher, node), {}, str(log), lifeline=by_shell)


def _log_of(log_path: Path, node: int) -> Path:
    return log_path if node == 0 else log_path.with_name(f"{log_path.stem}-node{node}{log_path.suffix}")


def _binds(family: int, where: tuple[object, ...]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((where[0], 0, *where[2:]))
        except OSError:
            return False
    return True
