"""What the checker of an engine has: one module each, named by the engine's row in the registry."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from ropewalk.checking.analysis import Analysis
from ropewalk.checking.command import Command
from ropewalk.engines import engine_of
from ropewalk.errors import UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.machine import Machine


class Checker(Protocol):
    """One engine's command lines, read as the engine reads them."""

    def rules_version(self) -> str:
        """The release whose options and rules are known."""

    def model_of(self, command: Command) -> str | None:
        """What the command serves: a file, a folder, a Hub id; None where it does not say."""

    def analyze(
        self, command: Command, inspection: Inspection | None, *, version: str | None, machine: Machine
    ) -> Analysis:
        """What the engine makes of the command, and everything that is wrong with it.

        ``version`` is the engine's, None for the newest known; ``machine`` what is known of the devices.
        """


def checker_of(engine: str) -> Checker:
    """The checker that the registry names for an engine. Raises :class:`UsageError` where it has none."""
    module = engine_of(engine).checker
    if module is None:
        raise UsageError(
            f"command lines of {engine} are not checked", where={"field": "engine", "value": engine}
        )
    return cast("Checker", import_module(module))
