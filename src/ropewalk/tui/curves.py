"""The curves beside a measurement: memory over time against the plan, prefill over length against the fit."""

from __future__ import annotations

from collections.abc import Sequence

from ropewalk import core
from ropewalk.measuring.records import SpeedPoint
from ropewalk.planner.records import Compute, Plan
from ropewalk.report.figures import common_unit
from ropewalk.tui.plotting import Level, Series, axis_over
from ropewalk.tui.runview import ArmView, RunView
from ropewalk.tui.widgets.plot import Figure
from ropewalk.units import GIB, KIB, MIB, format_bytes, format_tokens_short

_STYLES = ("$blue", "$orange", "$green", "$purple", "$yellow")
_SYMBOLS = ("●", "▲", "■", "◆", "×")
_STEPS = 24  # points of a fitted curve


def memory_figure(view: RunView, plan: Plan | None) -> Figure | None:
    """Anonymous memory of each arm's server over the seconds since its start; the plan as a level."""
    sampled = [(number, arm.samples) for number, arm in enumerate(view.arms) if arm.samples]
    if not sampled:
        return None
    planned = planned_bytes(view.arms, plan)
    counts = [sample.anon_bytes for _, samples in sampled for sample in samples]
    unit = common_unit([*counts, planned or 0])
    size = GIB if unit == "GiB" else MIB
    levels = []
    if planned is not None:
        levels.append(Level(planned / size, f"planned {format_bytes(planned)}", "$grey", "╌"))
    return Figure(
        series=[
            Series([(one.seconds, one.anon_bytes / size) for one in samples], _STYLES[number % len(_STYLES)])
            for number, samples in sampled
        ],
        levels=levels,
        x_axis=axis_over([one.seconds for _, samples in sampled for one in samples]),
        y_axis=axis_over([*(count / size for count in counts), *(level.value for level in levels)]),
        write_x=lambda value: f"{value:g} s",
        write_y=lambda value: f"{value:g} {unit[0]}",
    )


def planned_bytes(arms: Sequence[ArmView], plan: Plan | None) -> int | None:
    """The largest plan of all that is not mapped from a file: every term but the weights."""
    sums = [
        sum(term.planned_bytes or 0 for term in arm.result.memory if term.name != "weights")
        for arm in arms
        if arm.result and arm.result.memory
    ]
    if not sums and plan is not None:
        sums = [sum(term.bytes for term in plan.memory.terms if term.name != "weights")]
    return max(sums, default=None)


def prefill_figure(view: RunView, compute: Compute | None, context_len: int) -> Figure | None:
    """Seconds of whole prompts over their lengths, and what the plan's work predicts at the pace so far."""
    arms = [(number, _speeds(view, arm)) for number, arm in enumerate(view.arms)]
    points = [point for _, own in arms for point in own]
    if not points:
        return None
    longest = max([context_len, *(point.length for point in points)])
    curve = fitted(points, compute, context_len=context_len, longest=longest)
    series = [Series(curve, "$grey")]
    for number, own in arms:
        marks = [(float(point.length), point.prefill_seconds) for point in own]
        series.append(
            Series(marks, f"bold {_STYLES[number % len(_STYLES)]}", _SYMBOLS[number % len(_SYMBOLS)])
        )
    return Figure(
        series=series,
        x_axis=axis_over([float(longest)], unit=KIB),
        y_axis=axis_over([*(y for _, y in curve), *(point.prefill_seconds for point in points)]),
        write_x=lambda value: format_tokens_short(round(value)),
        write_y=_short_seconds,
    )


def fitted(
    points: Sequence[SpeedPoint], compute: Compute | None, *, context_len: int, longest: int
) -> list[tuple[float, float]]:
    """Seconds by length as the planned work (a line and a square) takes them at the measured pace."""
    if compute is None:
        return []
    pace = core.pace_of(compute, context_len=context_len)
    for point in points:
        pace.seen(0, point.length, point.prefill_seconds)
    lengths = [longest * step / _STEPS for step in range(1, _STEPS + 1)]
    return [(length, pace.seconds(0, round(length))) for length in lengths]


def arm_key(view: RunView) -> list[tuple[str, str, str]]:
    """Symbol, style and name of each arm in the curves."""
    return [
        (_SYMBOLS[number % len(_SYMBOLS)], _STYLES[number % len(_STYLES)], arm.label)
        for number, arm in enumerate(view.arms)
    ]


def _speeds(view: RunView, arm: ArmView) -> Sequence[SpeedPoint]:
    return core.speed_points(trial for trial in view.trials if trial.arm == arm.name)


def _short_seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 300 else f"{value / 60:.3g} min"
