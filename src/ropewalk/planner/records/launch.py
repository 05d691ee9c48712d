"""The command of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ropewalk.engines import EngineBuild, EngineName
from ropewalk.errors import UsageError


@dataclass(frozen=True, slots=True)
class NodeLaunch:
    """What one machine of a group starts; node 0 is the one that serves.

    ``address`` is the machine's own as the others reach it. ``argv`` are the arguments after the program
    (``program`` is its name as typed there), ``env`` what is added to the environment.
    """

    node: int
    address: str
    program: str
    argv: tuple[str, ...]
    env: dict[str, str]
    command: str


@dataclass(frozen=True, slots=True)
class OptionNote:
    """Options of a command that nobody asked for, and why they are there."""

    flags: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything needed to start a planned server, here or on another machine.

    ``argv`` are the engine's own arguments after the program, plain integers only, in the engine's own
    spelling, with ``host`` and ``port`` among them; ``env`` is what is added to the environment, ``command``
    both as typed into a shell. Where several machines serve together ``nodes`` has the command of each, and
    the others are node 0's. ``served_context_len`` is the context per sequence that the server may report for
    the ``context_len`` planned (as the engine pads it). ``override_context_len`` lifts the checkpoint's own
    limit to this length without scaling (``--override-kv``, or a patched temporary copy for the embedded
    engine). ``build`` is what starts it on this machine; None in a plan, which is for any.
    """

    engine: EngineName
    engine_version: str | None
    argv: tuple[str, ...]
    env: dict[str, str]
    command: str
    confirmed_by: Literal["engine", "rules"]
    nodes: tuple[NodeLaunch, ...] = ()
    explained: tuple[OptionNote, ...] = ()
    model: str = ""
    host: str = "127.0.0.1"
    port: int = 0
    context_len: int = 0
    served_context_len: int = 0
    override_context_len: int | None = None
    build: EngineBuild | None = None

    @property
    def found_build(self) -> EngineBuild:
        """The build that starts it. Raises :class:`UsageError` where none is named."""
        if self.build is None:
            raise UsageError("the launch names no engine of this machine", where={"engine": self.engine})
        return self.build
