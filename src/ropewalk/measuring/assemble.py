"""A run's frame, arms and trials become its ``Measurement``: everything that is derived, derived here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ropewalk.findings import by_severity
from ropewalk.measuring.compare import compare, compare_findings
from ropewalk.measuring.recall.statistics import LengthScore, effective_absolute, effective_relative
from ropewalk.measuring.recall.summary import by_length, cells, speed
from ropewalk.measuring.records import ArmResult, Measurement, Trial
from ropewalk.measuring.speed_fit import fit_speed


def assemble(frame: Measurement, arms: Sequence[ArmResult], trials: Sequence[Trial]) -> Measurement:
    """The whole record; pure, so that a stored run reads the same at any time."""
    by_arm = {arm.arm: [trial for trial in trials if trial.arm == arm.arm] for arm in arms}
    return replace(
        frame,
        arms=tuple(_with_recall(arm, by_arm) for arm in arms),
        comparison=compare(arms, by_arm, target_len=frame.target_len) if trials else None,
        findings=by_severity((*frame.findings, *compare_findings(arms, by_arm))),
    )


def _with_recall(arm: ArmResult, trials: Mapping[str, Sequence[Trial]]) -> ArmResult:
    own = trials[arm.arm]
    scores = by_length(own)
    points = speed(own)
    return replace(
        arm,
        cells=cells(own),
        speed=points,
        speed_fit=fit_speed(points, arm.work),
        effective_context_absolute=effective_absolute(scores),
        effective_context_relative=effective_relative(scores, base=_base(scores, trials)),
    )


def _base(scores: Sequence[LengthScore], trials: Mapping[str, Sequence[Trial]]) -> LengthScore | None:
    """The model's own base: the shortest length as shipped, where that was run, else of the same arm.

    A scaling that weakens short text must not be measured against its own weakness.
    """
    shipped = by_length(trials.get("shipped", ()))
    return next(iter((*shipped, *scores)), None)
