"""A run's frame, arms and trials become its ``Measurement``: everything that is derived, derived here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ropewalk.findings import by_severity
from ropewalk.measuring.compare import compare, compare_findings
from ropewalk.measuring.compare_losses import compare_losses, loss_findings
from ropewalk.measuring.loss.curves import curves
from ropewalk.measuring.loss.records import LossSpan
from ropewalk.measuring.recall.statistics import LengthScore, effective_absolute, effective_relative
from ropewalk.measuring.recall.summary import by_length, cells, speed
from ropewalk.measuring.records import ArmResult, Measurement, SpeedFit, SpeedPoint, Trial
from ropewalk.planner.least_squares import nonnegative
from ropewalk.planner.records import PromptWork


def assemble(
    frame: Measurement,
    arms: Sequence[ArmResult],
    trials: Sequence[Trial],
    losses: Sequence[LossSpan] = (),
) -> Measurement:
    """The whole record; pure, so that a stored run reads the same at any time."""
    by_arm = {arm.arm: [trial for trial in trials if trial.arm == arm.arm] for arm in arms}
    spans = {arm.arm: [span for span in losses if span.arm == arm.arm] for arm in arms}
    trained = frame.trained_len
    seen = tuple(_with_recall(arm, by_arm, spans[arm.arm], trained_len=trained) for arm in arms)
    comparison = compare(arms, by_arm, target_len=frame.target_len) if trials else None
    findings = compare_findings(arms, by_arm)
    if losses:
        comparison = compare_losses(comparison, seen, spans, target_len=frame.target_len, trained_len=trained)
        findings = (*findings, *loss_findings(seen, comparison))
    return replace(
        frame, arms=seen, comparison=comparison, findings=by_severity((*frame.findings, *findings))
    )


def _with_recall(
    arm: ArmResult,
    trials: Mapping[str, Sequence[Trial]],
    spans: Sequence[LossSpan],
    *,
    trained_len: int | None,
) -> ArmResult:
    own = trials[arm.arm]
    scores = by_length(own)
    points = _with_walk(speed(own), spans)
    return replace(
        arm,
        losses=curves(spans, trained_len=trained_len),
        cells=cells(own),
        speed=points,
        speed_fit=fit_speed(points, arm.work),
        effective_context_absolute=effective_absolute(scores),
        effective_context_relative=effective_relative(scores, base=_base(scores, trials)),
    )


_LEAST_EVALUATED = 0.9


def _with_walk(points: Sequence[SpeedPoint], spans: Sequence[LossSpan]) -> tuple[SpeedPoint, ...]:
    """With the speed of a text whose losses were read, where nothing so long was timed on its own.

    The tokens that were read one by one are not in its time, and are few; those that the server had in its
    cache say nothing of it, and must be few as well.
    """
    timed = [span for span in spans if span.probe == "loss" and span.seconds and span.evaluated]
    evaluated = sum(span.evaluated or 0 for span in timed)
    length = max((span.start for span in timed), default=0)
    texts = len({span.text for span in timed})
    is_whole = _LEAST_EVALUATED * length <= evaluated <= length
    if not timed or texts > 1 or not is_whole or any(point.length >= length for point in points):
        return tuple(points)
    seconds = sum(span.seconds or 0.0 for span in timed) * length / evaluated
    return (*points, SpeedPoint(length, seconds, length / seconds, None))


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
