"""Two stored runs side by side: what was different, what was recalled, what it took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.content import Content

from ropewalk.measuring.records import ArmResult, Measurement
from ropewalk.report.figures import common_unit, in_unit
from ropewalk.report.grid import heatmaps, lengths_of_speed, pooled
from ropewalk.report.plan import term_name
from ropewalk.tui.text import clean
from ropewalk.units import format_tokens

_LABEL, _CELL = 22, 26


def compare_page(left: Measurement, right: Measurement) -> Content:
    """Lines in three columns: what it is, the first run, the second."""
    lines = [_row("", left.run_id, right.run_id, style="bold $primary")]
    lines += [_row(name, *values) for name, *values in _identity(left, right)]
    lines.append(Content(""))
    lines += _recall(left, right)
    lines += _memory(left, right)
    lines += _speed(left, right)
    return Content("\n").join(lines)


def _row(label: str, left: str, right: str, *, style: str = "") -> Content:
    differs = left != right and not style
    return Content.assemble(
        (f"{clean(label):<{_LABEL}.{_LABEL}}", "$grey"),
        (f"{clean(left):<{_CELL}.{_CELL - 1}}", style or ("bold" if differs else "")),
        (f"{clean(right):<{_CELL}.{_CELL - 1}}", style or ("bold" if differs else "")),
    )


def _identity(left: Measurement, right: Measurement) -> Iterator[tuple[str, str, str]]:
    for name, read in (
        ("made", lambda run: run.created[:16].replace("T", " ")),
        ("status", lambda run: run.status),
        ("checkpoint", lambda run: run.checkpoint.rstrip("/").rsplit("/", 1)[-1]),
        ("weights", lambda run: run.checkpoint_fingerprint.removeprefix("sha256:")[:12]),
        ("machine", lambda run: f"{run.machine.cpu}, {run.machine.cores} cores"),
        ("target", lambda run: f"{format_tokens(run.target_len)} tokens"),
    ):
        yield name, read(left), read(right)


def _arms(left: Measurement, right: Measurement) -> Iterator[tuple[str, ArmResult | None, ArmResult | None]]:
    """The arms of both by name, in the order of the first run."""
    ours, theirs = ({arm.arm: arm for arm in run.arms} for run in (left, right))
    for name in dict.fromkeys((*ours, *theirs)):
        either = ours.get(name) or theirs[name]
        yield either.label, ours.get(name), theirs.get(name)


def _recall(left: Measurement, right: Measurement) -> Iterator[Content]:
    """Hits of judged trials with their interval, arm by arm and length by length."""
    pools = [_pools(run) for run in (left, right)]
    for label, ours, theirs in _arms(left, right):
        name = (ours or theirs or left.arms[0]).arm
        keys = sorted({key for pool in pools for key in pool if key[0] == name})
        if keys:
            yield Content.styled(f"recall, {label}", "bold")
        for key in keys:
            yield _row(f"  {format_tokens(key[2])} {key[1]}", *(pool.get(key, "not run") for pool in pools))


def _pools(run: Measurement) -> dict[tuple[str, str, int], str]:
    return {
        (arm.arm, heatmap.task, length): pooled(strip)
        for heatmap in heatmaps(run)
        for length, strips in heatmap.rows.items()
        for arm, strip in zip(heatmap.arms, strips, strict=True)
        if strip is not None
    }


def _memory(left: Measurement, right: Measurement) -> Iterator[Content]:
    """What was measured of each term, or printed where it could not be measured."""
    for label, *arms in _arms(left, right):
        seen = [
            {term.name: term.measured_bytes or term.printed_bytes for term in arm.memory} if arm else {}
            for arm in arms
        ]
        names = [name for name in dict.fromkeys((*seen[0], *seen[1])) if any(one.get(name) for one in seen)]
        if names:
            unit = common_unit(count or 0 for one in seen for count in one.values())
            yield Content.styled(f"memory, {label} ({unit})", "bold")
        for name in names:
            amounts = (None if one.get(name) is None else in_unit(one[name] or 0, unit) for one in seen)
            yield _row(f"  {term_name(name)}", *(amount or "–" for amount in amounts))


def _speed(left: Measurement, right: Measurement) -> Iterator[Content]:
    for label, *arms in _arms(left, right):
        lengths = lengths_of_speed([arm for arm in arms if arm])
        if lengths:
            yield Content.styled(f"prefill, {label} (tokens/s)", "bold")
        for length in lengths:
            yield _row(f"  {format_tokens(length)}", *(_rate(arm, length) for arm in arms))


def _rate(arm: ArmResult | None, length: int) -> str:
    points: Sequence[float] = [
        point.prefill_tokens_per_second for point in (arm.speed if arm else ()) if point.length == length
    ]
    return f"{points[0]:,.0f}" if points else "–"
