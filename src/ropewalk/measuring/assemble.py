"""A run's frame, arms and trials become its ``Measurement``: everything that is derived, derived here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ropewalk.findings import by_severity
from ropewalk.measuring.compare import compare, compare_findings
from ropewalk.measuring.recall.statistics import LengthScore, effective_absolute, effective_relative
from ropewalk.measuring.recall.summary import by_length, cells, speed
from ropewalk.measuring.records import ArmResult, Measurement, SpeedFit, SpeedPoint, Trial
from ropewalk.planner.least_squares import nonnegative
from ropewalk.planner.records import PromptWork


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


_MIN_LENGTHS = 3  # as many as the curve has parts


def fit_speed(points: Sequence[SpeedPoint], work: Sequence[PromptWork]) -> SpeedFit | None:
    """Seconds of prefill as ``a + b n + c n^2``, none of them below zero; None for fewer than three lengths.

    ``work`` is what the plan says of the same lengths.
    """
    lengths = [point.length for point in points]
    if len(set(lengths)) < _MIN_LENGTHS:
        return None
    rows = [(1.0, float(length), float(length) ** 2) for length in lengths]
    fixed, linear, square = nonnegative(rows, [point.prefill_seconds for point in points])
    longest = max(lengths)
    per_token = linear + square * longest
    return SpeedFit(
        seconds_fixed=fixed,
        seconds_per_token=linear,
        seconds_per_token_squared=square,
        longest_len=longest,
        attention_share=square * longest / per_token if per_token else None,
        planned_attention_share=next((one.attention_share for one in work if one.length == longest), None),
    )
