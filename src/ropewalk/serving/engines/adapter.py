"""What serving needs from an engine's module."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ropewalk.engines import EngineBuild
from ropewalk.findings import Finding
from ropewalk.inspector.records import Inspection
from ropewalk.planner.records import Launch, Plan
from ropewalk.serving.client import Reading, ServerClient
from ropewalk.serving.engines.explained import Reason
from ropewalk.serving.records import Topology

Outcome = tuple[bool | None, str]  # of a check before the start; None where it could not be made


class Adapter(Protocol):
    """The functions of an engine's module ``launch``."""

    DEFAULT_PORT: int
    READY_SECONDS: float
    SCRUBBED_ENVIRONMENT: re.Pattern[str]
    OPTION_REASONS: tuple[Reason, ...]
    READING: Reading | None  # how the probabilities of given tokens are had from its server, if they are

    def arguments(
        self, plan: Plan, *, build: EngineBuild, model: str, host: str, port: int, threads: int | None
    ) -> tuple[str, ...]:
        """The plan as the engine's arguments."""

    def environment(self, plan: Plan, *, threads: int | None) -> dict[str, str]:
        """What is added to the environment."""

    def served_context_len(self, plan: Plan) -> int:
        """The context per sequence that the server reports at most: the planned length as the engine pads
        it."""

    def distribute(self, launch: Launch, spread: Topology, *, num_nodes: int) -> Launch:
        """The launch of one server as that of several machines; unchanged where there is one."""

    def launch_findings(self, plan: Plan) -> tuple[Finding, ...]:
        """What is to be known of the way in which the engine will serve this plan."""

    def program(self, build: EngineBuild) -> tuple[str, ...]:
        """What goes before the arguments."""

    def start_argv(self, launch: Launch) -> AbstractContextManager[tuple[str, ...]]:
        """The arguments to start with, and what must be there until the server has loaded."""

    def served_name(self, argv: Sequence[str]) -> str:
        """The name under which a server with these arguments lists its model."""

    def command_of(self, argv: Sequence[str], env: Mapping[str, str]) -> str:
        """The command line for a shell."""

    def check_devices(self, plan: Plan, launch: Launch, inspection: Inspection, spread: Topology) -> Outcome:
        """Whether the engine has the devices of the plan here, and can deal the model out to them."""

    def client(self, base_url: str, *, model: str) -> ServerClient:
        """A client of a server of this engine that serves ``model``."""

    def root_error(self, lines: Sequence[str]) -> str | None:
        """The engine's own reason for ending, or None where the log names none."""
