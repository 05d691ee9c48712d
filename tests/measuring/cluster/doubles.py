"""A cluster in this process: nodes that run tasks at once, and lose some of them as told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.measuring.fake_llm import FakeServer
from tests.measuring.test_measure import FakeRunning

from ropewalk.measuring.cluster.backend import Ended
from ropewalk.measuring.cluster.node import run_task
from ropewalk.measuring.cluster.settings import Needs
from ropewalk.planner.records import Launch
from ropewalk.serving.server_report import ServerReport

VOCABULARY: dict[str, Any] = {"words": [], "ids": {}}  # of the one model that all nodes serve


@dataclass
class Servers:
    """Starts one server in memory per call; ``faults`` are the fields of the n-th one, or what it raises."""

    faults: list[dict[str, Any] | BaseException] = field(default_factory=list)
    started: list[FakeRunning] = field(default_factory=list)
    calls: int = 0

    def start(self, spec: Launch, log_path: Path) -> FakeRunning:
        fault = self.faults[self.calls] if self.calls < len(self.faults) else {}
        self.calls += 1
        if isinstance(fault, BaseException):
            raise fault
        log_path.parent.mkdir(parents=True, exist_ok=True)
        log_path.write_text(f"I serve {spec.context_len} tokens\n")
        client = FakeServer(**{"context": spec.served_context_len, **VOCABULARY, **fault})
        self.started.append(FakeRunning(client, ServerReport("fake", client.context, 1)))
        return self.started[-1]


@dataclass
class Cluster:
    """``troubles`` are by arm, one per attempt: ``lost``, ``failed``, ``interrupt`` (Ctrl-C at home)."""

    servers: Servers = field(default_factory=Servers)
    troubles: dict[str, list[str]] = field(default_factory=dict)
    nodes: tuple[str, ...] = ("10.9.0.1", "10.9.0.2")
    submitted: list[dict[str, Any]] = field(default_factory=list)
    needs: list[Needs] = field(default_factory=list)
    is_left: bool = False
    _waiting: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_left = True

    def describe(self) -> str:
        return f"{len(self.nodes)} nodes in memory"

    def submit(self, tasks: Mapping[str, str], needs: Needs) -> None:
        for key, text in tasks.items():
            task = json.loads(text)
            assert task["key"] == key
            self.submitted.append(task)
            self.needs.append(needs)
            self._waiting.append(text)

    def next(self) -> Ended:
        text = self._waiting.pop(0)
        task = json.loads(text)
        key, (arm,) = task["key"], task["frame"]["settings"]["arms"]
        trouble = self.troubles.get(arm, [])[task["attempt"] - 1 : task["attempt"]]
        if trouble == ["interrupt"]:
            raise KeyboardInterrupt
        if trouble == ["lost"]:
            return Ended(key, lost="the worker died")
        if trouble == ["failed"]:
            return Ended(key, failed="No module named 'ropewalk'")
        node = self.nodes[len(self.submitted) % len(self.nodes)]
        return Ended(key, record=run_task(text, address=node, start=self.servers.start))

    def attempts(self) -> list[tuple[str, int]]:
        """What was handed out, in order."""
        return [(task["frame"]["settings"]["arms"][0], task["attempt"]) for task in self.submitted]
