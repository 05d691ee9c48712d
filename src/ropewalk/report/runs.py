"""The list of stored runs."""

from __future__ import annotations

from collections.abc import Sequence

from ropewalk.measuring.store import RunSummary
from ropewalk.report.figures import short_name
from ropewalk.report.page import Page, strong, table
from ropewalk.units import format_tokens


def runs_page(runs: Sequence[RunSummary]) -> Page:
    """One row per run, as given."""
    if not runs:
        return Page(("no runs yet; `ropewalk measure` or `ropewalk demo` makes one",))
    rows = (
        (
            strong(run.run_id),
            run.created[:16].replace("T", " "),
            run.status,
            short_name(run.checkpoint),
            format_tokens(run.target_len),
            ", ".join(run.arms) or "no arm",
            f"{run.trials:,}",
        )
        for run in runs
    )
    return Page(
        (table("run | made (UTC) | status | *checkpoint | >tokens | *arms | >trials", rows),), is_list=True
    )
