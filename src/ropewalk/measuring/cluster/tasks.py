"""What goes to a node and what comes back, both as JSON: no weights, no pickled objects of ours."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ropewalk import jsonio
from ropewalk._version import __version__
from ropewalk.engines import EngineBuild, EngineName
from ropewalk.findings import Finding
from ropewalk.measuring.loss.records import LossSpan, ProbeText
from ropewalk.measuring.records import ArmResult, Measurement, NodeSeen, Trial
from ropewalk.measuring.session import settings_data
from ropewalk.measuring.settings import MeasureSettings


@dataclass(frozen=True, slots=True)
class Task:
    """One arm of a run, to be measured on whichever node takes it.

    ``key`` names the work, whoever does it and however often; ``frame`` is the run as if this arm and its
    lengths were all of it; ``trials`` were answered and ``losses`` read before; ``engine_path`` is one on the
    node.
    """

    key: str
    attempt: int
    model: str
    engine: EngineName
    engine_path: str | None
    frame: Measurement
    trials: tuple[Trial, ...]
    whole_node: bool
    losses: tuple[LossSpan, ...] = ()
    ropewalk: str = __version__

    @property
    def arm(self) -> str:
        """Name of the arm that the task measures."""
        name: str = self.frame.settings["arms"][0]
        return name


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """What became of a task.

    ``result`` is what was seen of the arm, a failed server included; without one a ``finding`` says why
    there is none, or a ``fault`` of the machine (a port was taken, the worker told to stop) that another
    attempt may not meet. ``log`` is the end of the server's.
    """

    key: str
    node: NodeSeen
    result: ArmResult | None = None
    trials: tuple[Trial, ...] = ()
    losses: tuple[LossSpan, ...] = ()
    texts: tuple[ProbeText, ...] = ()
    log: str = ""
    finding: Finding | None = None
    fault: str | None = None


def task_of(
    frame: Measurement,
    arm: str,
    *,
    settings: MeasureSettings,
    lengths: Sequence[int],
    trials: Sequence[Trial],
    losses: Sequence[LossSpan],
    model: str,
    build: EngineBuild,
    engine_path: str | None,
    whole_node: bool,
) -> Task:
    """The first attempt at an arm of a run; ``build`` is the engine that was planned for."""
    own = settings_data(replace(settings, lengths=tuple(lengths)), arms=[arm])
    what = {
        "checkpoint": frame.checkpoint_fingerprint,
        "target_len": frame.target_len,
        "settings": own,
        "engine": [build.engine, build.version, engine_path],
    }
    return Task(
        key=hashlib.sha256(jsonio.dumps(what, indent=None).encode()).hexdigest(),
        attempt=1,
        model=model,
        engine=build.engine,
        engine_path=engine_path,
        frame=replace(frame, status="interrupted", settings=own, findings=()),
        trials=tuple(trials),
        losses=tuple(losses),
        whole_node=whole_node,
    )
