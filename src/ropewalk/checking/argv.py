"""The words of a command line, down to the engine that it starts and that engine's own arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import cast

from ropewalk.checking.command import Command
from ropewalk.checking.containers import CONTAINER_PROGRAMS, read_container, read_entrypoint
from ropewalk.checking.documents import command_of
from ropewalk.checking.script import command_text, expanded
from ropewalk.checking.shell import Word, bounded, split
from ropewalk.engines import REGISTRY, EngineName
from ropewalk.errors import UsageError

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_CONTROL = frozenset({"|", "||", "&", "&&", ";", ";;"})
# Programs that start another, with the options of theirs that take a value.
_WRAPPERS: dict[str, frozenset[str]] = {
    "env": frozenset({"-u", "--unset", "-C", "--chdir"}),
    "exec": frozenset({"-a"}),
    "nohup": frozenset(),
    "setsid": frozenset(),
    "time": frozenset({"-f", "-o"}),
    "sudo": frozenset({"-u", "--user", "-g", "--group", "-C", "-D"}),
    "doas": frozenset({"-u"}),
    "nice": frozenset({"-n", "--adjustment"}),
    "ionice": frozenset({"-c", "-n", "--class", "--classdata"}),
    "numactl": frozenset({
        "-m", "--membind", "-N", "--cpunodebind", "-C", "--physcpubind", "-i", "--interleave", "-p",
        "--preferred", "-w", "--weighted-interleave", "-P", "--preferred-many",
    }),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "systemd-run": frozenset({"-p", "--property", "-u", "--unit", "--slice", "-E", "--setenv"}),
    "screen": frozenset({"-S", "-dmS", "-DmS", "-mdS", "-t", "-c", "-L"}),
    "caffeinate": frozenset({"-t", "-w"}),
    "prime-run": frozenset(),
    "gamemoderun": frozenset(),
    "unbuffer": frozenset(),
    "do": frozenset(),
    "then": frozenset(),
    "srun": frozenset({"-n", "-N", "-c", "-p", "-t", "-w", "-J"}),
}  # fmt: skip
_ONE_OPERAND = {"timeout": frozenset({"-s", "--signal", "-k", "--kill-after"}), "taskset": frozenset[str](),
                "chrt": frozenset[str]()}  # fmt: skip
# Programs that start another as a subcommand, with the options that take a value.
_RUNNERS: dict[tuple[str, str], frozenset[str]] = {
    ("tmux", "new"): frozenset({"-s", "-n", "-c", "-t", "-e", "-x", "-y"}),
    ("tmux", "new-session"): frozenset({"-s", "-n", "-c", "-t", "-e", "-x", "-y"}),
    ("tmux", "new-window"): frozenset({"-n", "-c", "-t", "-e"}),
    ("toolbox", "run"): frozenset({"-c", "--container", "-d", "--distro", "-r", "--release"}),
    ("uv", "run"): frozenset({
        "--with", "-p", "--python", "--project", "--directory", "--env-file", "--extra", "--group", "--index",
        "--with-requirements", "--with-editable", "--package", "--index-url", "--extra-index-url",
    }),
    ("poetry", "run"): frozenset({"-C", "--directory"}),
    ("pipenv", "run"): frozenset(),
    ("pdm", "run"): frozenset({"-p", "--project"}),
    ("pixi", "run"): frozenset({"-e", "--environment", "--manifest-path"}),
    ("conda", "run"): frozenset({"-n", "--name", "-p", "--prefix", "--cwd"}),
    ("mamba", "run"): frozenset({"-n", "--name", "-p", "--prefix", "--cwd"}),
    ("micromamba", "run"): frozenset({"-n", "--name", "-p", "--prefix", "--cwd"}),
}  # fmt: skip
# The same with an operand before the command: a container, an image, a machine.
_IN_PLACES: dict[tuple[str, ...], frozenset[str]] = {
    ("docker", "exec"): frozenset({"-e", "--env", "-w", "--workdir", "-u", "--user", "--env-file"}),
    ("podman", "exec"): frozenset({"-e", "--env", "-w", "--workdir", "-u", "--user", "--env-file"}),
    ("apptainer", "exec"): frozenset({"-B", "--bind", "--env", "-H", "--home", "--pwd"}),
    ("singularity", "exec"): frozenset({"-B", "--bind", "--env", "-H", "--home", "--pwd"}),
    ("distrobox", "enter"): frozenset({"-a", "--additional-flags"}),
    ("ssh",): frozenset({"-p", "-i", "-l", "-o", "-L", "-R", "-J", "-F", "-D", "-b", "-c", "-m", "-W"}),
}
_START = frozenset({"/affinity", "/d", "/node"})  # options of Windows' start with a value
_UVX = frozenset({"--from", "--with", "-p", "--python", "--index", "--index-url", "--extra-index-url"})
_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})
_MAX_DEPTH = 4


def read_command(argv: Sequence[str]) -> Command:
    """Find the engine in a command line, given as words or as one quoted string.

    The string may have more than one command, redirections, and wrappers such as ``numactl`` or ``uv run``:
    the one command that starts an engine counts. Raises :class:`UsageError` for none, and for several.
    """
    if len(argv) != 1:
        bounded(len(argv), sum(map(len, argv)))
        return _read_words(list(argv))
    return _read_text(argv[0], _MAX_DEPTH)


def _read_text(text: str, depth: int) -> Command:
    if depth == _MAX_DEPTH:
        text = command_of(text) or text
    return _read_words(split(command_text(text)), depth)


@dataclass(frozen=True, slots=True)
class _Segment:
    """One simple command of a line: its words, redirections, and what stands around it."""

    words: list[str]
    redirections: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]


def _read_words(words: Sequence[str], depth: int = _MAX_DEPTH) -> Command:
    segments = list(_segments(words))
    if not segments:
        raise _no_command()
    found: list[Command] = []
    first: UsageError | None = None
    exported: dict[str, str] = {}
    values: dict[str, str] = {}  # of the shell's own variables too
    for segment in segments:
        typed = expanded(segment.words, values)
        if typed[0] == "export" or all(map(_ASSIGNMENT.fullmatch, typed)):
            values |= dict(_assignments(typed))
            exported |= dict(_assignments(typed)) if typed[0] == "export" else {}
            continue
        try:
            command = _simple(typed, depth)
        except UsageError as error:
            first = error if first is None or error.code != "unsupported_command" else first
            continue
        found.append(
            replace(
                command,
                exported=exported if command.container_env is None else {},
                before=segment.before,
                after=(*command.after, *segment.redirections, *segment.after),
            )
        )
    if len(found) == 1:
        return found[0]
    if found:
        programs = ", ".join(" ".join(command.prefix) for command in found)
        raise UsageError(f"{len(found)} servers are started ({programs}): give one of them", where={})
    raise first or _no_command()


def _segments(words: Sequence[str]) -> Iterator[_Segment]:
    """The simple commands of a line; only a string that was split here has operators."""
    start = 0
    for at in range(len(words) + 1):
        if at == len(words) or (_is_operator(words[at]) and words[at] in _CONTROL):
            plain, redirections = _without_redirections(words[start:at])
            if plain:
                yield _Segment(plain, redirections, tuple(words[:start]), tuple(words[at:]))
            start = at + 1


def _without_redirections(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    plain: list[str] = []
    redirections: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if not _is_operator(word):
            plain.append(word)
            at += 1
            continue
        complete = re.fullmatch(r"\d?>&[\d-]", word) is not None
        redirections += words[at : at + (1 if complete else 2)]
        at += 1 if complete else 2
    return plain, tuple(redirections)


def _is_operator(word: str) -> bool:
    return isinstance(word, Word) and word.is_operator


def _assignments(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        match = _ASSIGNMENT.fullmatch(word)
        if match:
            yield match[1], _value_of(word, match[2])


def _value_of(word: str, value: str) -> str:
    """The value of ``NAME=value`` as it was written."""
    if not isinstance(word, Word) or not word.raw.startswith(word.partition("=")[0] + "="):
        return value
    return Word.of(value, word.raw.partition("=")[2])


def _simple(words: list[str], depth: int) -> Command:
    """The engine of one simple command, behind assignments and wrappers."""
    env: dict[str, str] = {}
    wrappers: list[str] = []
    at = 0
    while at < len(words):
        if _ASSIGNMENT.fullmatch(words[at]):
            env |= dict(_assignments([words[at]]))
            at += 1
            continue
        end = _wrapper_end(words, at)
        if end == at:
            break
        wrappers += words[at:end] if words[at:end] != ["env"] else []
        at = end
    return _started(tuple(wrappers), words[at:], env, depth)


def _wrapper_end(words: Sequence[str], at: int) -> int:
    """Where the command behind a wrapper begins; ``at`` itself where there is none."""
    program = PurePosixPath(words[at]).name
    if program in _WRAPPERS:
        return _options_end(words, at + 1, _WRAPPERS[program])
    if program == "start":
        return _start_end(words, at + 1)
    for place, options in _IN_PLACES.items():
        if (program, *words[at + 1 : at + len(place)]) == place:
            operand = _options_end(words, at + len(place), options)
            return _options_end(words, operand + 1, frozenset())
    if program in _ONE_OPERAND:
        return _options_end(words, at + 1, _ONE_OPERAND[program]) + 1
    runner = _RUNNERS.get((program, words[at + 1])) if at + 1 < len(words) else None
    if runner is not None:
        return _options_end(words, at + 2, runner)
    return _options_end(words, at + 1, _UVX) if program == "uvx" else at


def _options_end(words: Sequence[str], at: int, with_value: frozenset[str]) -> int:
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "--":
            return at + 1
        at += 2 if words[at] in with_value else 1
    return at


def _start_end(words: Sequence[str], at: int) -> int:
    """Behind a title in quotes and options of Windows' ``start``."""
    if at < len(words) and isinstance(words[at], Word) and cast(Word, words[at]).raw.startswith('"'):
        at += 1
    while at < len(words) and words[at].startswith("/"):
        at += 2 if words[at].lower() in _START else 1
    return at


def _started(wrappers: tuple[str, ...], words: list[str], env: dict[str, str], depth: int) -> Command:
    if not words:
        raise _no_command()
    if wrappers and len(words) == 1 and depth and re.search(r"\s", words[0]):
        command = _read_text(str(words[0]), depth - 1)
        return replace(command, env={**env, **command.env})
    program = re.split(r"[/\\]", words[0])[-1].removesuffix(".exe")
    if program in CONTAINER_PROGRAMS:
        inner = read_entrypoint(words)
        if inner is None:
            return read_container(wrappers, words, env)
        command = _started((), list(inner.words), {}, depth)
        before = words[: len(words) - len(command.arguments)]
        return replace(
            command, prefix=(*wrappers, *before), env=env, container_env=inner.env,
            engine_version=inner.version, on_cpu=inner.on_cpu,
        )  # fmt: skip
    if program in _SHELLS and depth:
        return _shell(words, env, depth)
    start = _start(program, words)
    if start is None:
        raise _unsupported(" ".join(words[:3] if words[1:2] == ["-m"] else words[:2]))
    engine, count = start
    return Command(engine, (*wrappers, *words[:count]), tuple(words[count:]), env)


def _start(program: str, words: Sequence[str]) -> tuple[EngineName, int] | None:
    """The engine that the words start, and how many of them do; the options of an interpreter go with it."""
    skipped = 0
    if re.fullmatch(r"python[0-9.]*", program):
        program = "python"
        skipped = next((at for at, word in enumerate(words[1:]) if word == "-m" or word[:1] != "-"), 0)
    typed = (program, *words[1 + skipped :])
    for engine in REGISTRY.values():
        for start in engine.starts:
            if typed[: len(start)] == start:
                return engine.name, len(start) + skipped
    return None


def _no_command() -> UsageError:
    return UsageError(f"there is no command to judge; supported: {_supported()}", where={"command": []})


def _supported() -> str:
    """The usual ways to start each engine, for messages."""
    usual = [" ".join(start) for engine in REGISTRY.values() for start in engine.starts[:2]]
    return " and ".join([", ".join(f"'{words} ...'" for words in usual[:-1]), f"'{usual[-1]} ...'"])


def _shell(words: Sequence[str], env: dict[str, str], depth: int) -> Command:
    """``sh -c 'COMMAND'``: the repaired command stands without the shell around it."""
    at = next((at for at, word in enumerate(words) if re.fullmatch(r"-[a-z]*c", word)), None)
    if at is None or at + 1 >= len(words):
        raise _unsupported(" ".join(words[:2]))
    command = _read_text(str(words[at + 1]), depth - 1)
    return replace(command, env={**env, **command.env})


def _unsupported(what: str) -> UsageError:
    return UsageError(
        f"cannot check {what!r}; supported: {_supported()}",
        code="unsupported_command",
        where={"program": what},
    )
