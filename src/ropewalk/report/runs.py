"""The list of stored runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from ropewalk.measuring.store import RunSummary
from ropewalk.report.layout import Parts, columns, short_name
from ropewalk.units import format_tokens


def runs_page(runs: Sequence[RunSummary]) -> RenderableType:
    """One entry per run, as given."""
    if not runs:
        return Text("no run is stored; `ropewalk measure` or `ropewalk demo` makes one")
    table = columns("left", "left")
    for run in runs:
        table.add_row(Text(run.run_id, style="bold"), Parts(list(_parts(run))))
    return table


def _parts(run: RunSummary) -> Iterator[str]:
    yield run.created[:16].replace("T", " ") + " UTC"
    yield run.status
    yield short_name(run.checkpoint)
    yield f"{format_tokens(run.target_len)} tokens"
    yield ", ".join(run.arms) or "no arm"
    yield f"{run.trials:,} trials"
