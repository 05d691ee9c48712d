"""The engine that a command line starts, with what stands around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ropewalk.checking.shell import Word, join, quoted
from ropewalk.engines import EngineName


@dataclass(frozen=True, slots=True)
class Command:
    """``prefix`` starts the engine, ``arguments`` are its own, ``env`` what was assigned in front.

    ``container_env`` are the variables set inside a container, None where there is no container;
    ``engine_version`` is what the image's tag says, if it does, and ``on_cpu`` whether it is an image for the
    CPU, None where that is not said. ``before`` and ``after`` are what else stands in the shell line: other
    commands, redirections; ``exported`` are the variables that a command before sets.
    """

    engine: EngineName
    prefix: tuple[str, ...]
    arguments: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    container_env: dict[str, str] | None = None
    engine_version: str | None = None
    on_cpu: bool | None = None
    exported: dict[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def engine_env(self) -> dict[str, str]:
        """The variables that the command itself sets for the engine."""
        return {**self.exported, **self.env} if self.container_env is None else self.container_env

    @property
    def argv(self) -> tuple[str, ...]:
        """All words after the assignments."""
        return (*self.prefix, *self.arguments)

    def with_words(self, argv: Sequence[str], env: dict[str, str]) -> Command:
        """The same program with other arguments."""
        return replace(self, arguments=tuple(argv[len(self.prefix) :]), env=env)

    def shell(self) -> str:
        """The whole line for a shell, with the user's own quoting where a word is his."""
        return " ".join(
            filter(None, (join(self.before), _assignments(self.env), join(self.argv), join(self.after)))
        )


def _assignments(env: Mapping[str, str]) -> str:
    return " ".join(
        f"{name}={value.raw if isinstance(value, Word) else quoted(value)}" for name, value in env.items()
    )
