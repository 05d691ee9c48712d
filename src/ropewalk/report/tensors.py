"""The page of ``ropewalk tensors``: every tensor, those of identical blocks on one row."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ropewalk.inspector.records import Checkpoint
from ropewalk.inspector.tensors import Shape
from ropewalk.report.folding import FoldedRow
from ropewalk.report.layout import columns, in_unit
from ropewalk.units import format_bytes


def tensors_page(
    checkpoint: Checkpoint, rows: Sequence[FoldedRow], *, sections: bool = True
) -> RenderableType:
    """The folded rows under a heading per block; without ``sections`` in the order given."""
    count, size = sum(row.count for row in rows), sum(row.total_bytes for row in rows)
    of_all = "" if count == len(checkpoint.tensors) else f" of {len(checkpoint.tensors):,}"
    title = Text.assemble(
        (checkpoint.source, "bold"),
        f"  {count:,}{of_all} tensors · {format_bytes(size)} · {len(rows):,} rows",
    )
    return Group(title, _table(rows, sections=sections))


def shape_text(shape: Shape) -> str:
    """``[4096, 4096]``; a scalar is ``[]``."""
    return f"[{', '.join(str(dimension) for dimension in shape)}]"


def _table(rows: Sequence[FoldedRow], *, sections: bool) -> Table:
    # The name may wrap, the figures never do.
    table = columns("left", "left", "right", "right", "right")
    table.columns[0].no_wrap = False
    table.columns[-1].no_wrap = True
    heads = ("name", "dtype", "shape", "count", "MiB in all")
    table.add_row(*(Text(head, style="dim") for head in heads))
    section = ""
    for row in rows:
        if sections and row.section and row.section != section:
            table.add_row(Text(row.section, style="bold"))
        section = row.section
        name = f"  {row.name.removeprefix(row.section)}" if sections and row.section else row.name
        amount = in_unit(row.total_bytes, "MiB")
        table.add_row(Text(name), row.dtype, shape_text(row.shape), f"{row.count:,}", amount)
    return table
