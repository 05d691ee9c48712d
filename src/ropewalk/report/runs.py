"""The list of stored runs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from ropewalk.report.layout import columns
from ropewalk.serving.store import RunSummary
from ropewalk.units import format_tokens

_STATUS_STYLES = {"finished": "", "running": "yellow", "interrupted": "yellow", "failed": "red"}


def runs_page(runs: Sequence[RunSummary]) -> RenderableType:
    """One row per run, as given."""
    if not runs:
        return Text("no run is stored; `ropewalk measure` or `ropewalk demo` makes one")
    table = columns("left", "left", "right", "right", "left", "left", "left")
    table.columns[5].no_wrap = False
    heads = ("run", "made (UTC)", "tokens", "trials", "status", "checkpoint", "arms")
    table.add_row(*(Text(head, style="dim") for head in heads))
    for run in runs:
        table.add_row(
            Text(run.run_id, style="bold"),
            run.created[:16].replace("T", " "),
            format_tokens(run.target_len),
            f"{run.trials:,}",
            Text(run.status, style=_STATUS_STYLES[run.status]),
            run.checkpoint.rstrip("/").rsplit("/", 1)[-1],
            ", ".join(run.arms),
        )
    return table
