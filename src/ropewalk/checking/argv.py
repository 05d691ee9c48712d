"""The words of a command line, down to the engine that it starts and that engine's own arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from ropewalk.engines import EngineName
from ropewalk.errors import UsageError

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_WRAPPERS = frozenset({"env", "exec", "nohup", "sudo", "time"})
_SHELL_OPERATORS = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1", "&>"})
_API_SERVER = "vllm.entrypoints.openai.api_server"
JUDGED = "'vllm serve MODEL ...', 'python -m vllm.entrypoints.openai.api_server ...' and 'llama-server ...'"


@dataclass(frozen=True, slots=True)
class Command:
    """``prefix`` starts the engine, ``arguments`` are its own, ``env`` what was assigned in front.

    ``container_env`` are the variables set inside a container, None where there is no container;
    ``engine_version`` is what the image's tag says, if it does.
    """

    engine: EngineName
    prefix: tuple[str, ...]
    arguments: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    container_env: dict[str, str] | None = None
    engine_version: str | None = None

    @property
    def engine_env(self) -> dict[str, str]:
        """The variables that the command itself sets for the engine."""
        return self.env if self.container_env is None else self.container_env

    @property
    def argv(self) -> tuple[str, ...]:
        """All words after the assignments."""
        return (*self.prefix, *self.arguments)

    def with_words(self, argv: Sequence[str], env: dict[str, str]) -> Command:
        """The same program with other arguments."""
        return replace(self, arguments=tuple(argv[len(self.prefix) :]), env=env)


def read_command(argv: Sequence[str]) -> Command:
    """Find the engine in a command line, given as words or as one quoted string.

    Raises :class:`UsageError` for what starts neither engine, or more than one program.
    """
    words = _split(argv[0]) if len(argv) == 1 else list(argv)
    env: dict[str, str] = {}
    start = 0
    while start < len(words):
        assignment = _ASSIGNMENT.fullmatch(words[start])
        if assignment:
            env[assignment[1]] = assignment[2]
        elif words[start] not in _WRAPPERS:
            break
        start += 1
    wrappers = tuple(word for word in words[:start] if word in _WRAPPERS and word != "env")
    return _started(wrappers, words[start:], env)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text.replace("\\\n", " "))
    except ValueError as error:
        raise UsageError(
            f"the command cannot be split into words: {error}", where={"command": text}
        ) from error


def _started(wrappers: tuple[str, ...], words: list[str], env: dict[str, str]) -> Command:
    operators = [word for word in words if word in _SHELL_OPERATORS]
    if operators:
        raise UsageError(
            f"{operators[0]!r} is the shell's: give one command without it", where={"word": operators[0]}
        )
    if not words:
        raise UsageError(f"there is no command to judge; {JUDGED} are", where={"command": []})
    program = PurePath(words[0]).name.removesuffix(".exe")
    if program == "llama-server":
        return Command("llama-server", (*wrappers, words[0]), tuple(words[1:]), env)
    if program == "vllm":
        return _vllm(wrappers, words, env)
    if re.fullmatch(r"python[0-9.]*", program):
        return _python(wrappers, words, env)
    if program in ("docker", "podman"):
        from ropewalk.checking.containers import read_container

        return read_container(wrappers, words, env)
    raise _not_judged(words[0])


def _vllm(wrappers: tuple[str, ...], words: list[str], env: dict[str, str]) -> Command:
    if words[1:2] != ["serve"]:
        raise _not_judged(" ".join(words[:2]))
    return Command("vllm", (*wrappers, *words[:2]), tuple(words[2:]), env)


def _python(wrappers: tuple[str, ...], words: list[str], env: dict[str, str]) -> Command:
    index = next((i for i, word in enumerate(words) if word == "-m"), None)
    module = words[index + 1] if index is not None and index + 1 < len(words) else None
    if index is None or module is None or not all(word.startswith("-") for word in words[1:index]):
        raise _not_judged(" ".join(words[:2]))
    end = index + 2
    if module in ("vllm", "vllm.entrypoints.cli.main") and words[end : end + 1] == ["serve"]:
        end += 1
    elif module != _API_SERVER:
        raise _not_judged(f"python -m {module}")
    return Command("vllm", (*wrappers, *words[:end]), tuple(words[end:]), env)


def _not_judged(what: str) -> UsageError:
    return UsageError(f"{what!r} is not judged; {JUDGED} are", where={"program": what})
