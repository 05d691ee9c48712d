"""A cell of the grid in full: every trial with what was hidden, asked, answered, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from ropewalk.measuring.recall.tasks import Asked
from ropewalk.measuring.records import Trial
from ropewalk.report.grid import MARKS
from ropewalk.tui.text import clean
from ropewalk.tui.widgets.heatmap import style_of
from ropewalk.units import format_seconds, format_tokens


def cell_page(trials: Sequence[tuple[Trial, Asked | None]]) -> Content:
    """The trials one below the other."""
    if not trials:
        return Content.styled("not asked yet", "$grey")
    return Content("\n\n").join(trial_page(trial, asked) for trial, asked in trials)


def trial_page(trial: Trial, asked: Asked | None) -> Content:
    """Outcome first, then the prompt around the needle and the answer."""
    mark = MARKS[trial.outcome]
    head = f"  {format_tokens(trial.length)} tokens, depth {trial.depth:.0%}, seed {trial.seed}"
    lines = [
        Content.assemble(
            (f"{mark.symbol} {mark.words}", f"bold {style_of(mark).removeprefix('bold ')}"), (head, "$grey")
        )
    ]
    if asked is not None and asked.needle is not None:
        at = "" if trial.needle_at is None else f" at token {format_tokens(trial.needle_at)}"
        lines.append(_line(f"hidden{at}", f"… {asked.needle} …"))
    if asked is not None:
        lines.append(_line("asked", asked.question))
        lines.append(_line("opened", asked.opening))
    lines.append(_line("answered", trial.answer.strip() or "nothing"))
    lines.append(_line("expected", ", ".join(trial.expected)))
    if trial.detail:
        lines.append(_line("because", trial.detail))
    if trial.prefill_seconds is not None:
        cached = f", {format_tokens(trial.cached_tokens)} of it cached" if trial.cached_tokens else ""
        lines.append(_line("took", f"{format_seconds(trial.prefill_seconds)} for the prompt{cached}"))
    return Content("\n").join(lines)


def _line(label: str, words: str) -> Content:
    return Content.assemble((f"{label}: ", "$grey"), clean(words))
