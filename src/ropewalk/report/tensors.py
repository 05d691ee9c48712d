"""The page of ``ropewalk tensors``: every tensor, those of identical blocks on one row."""

from __future__ import annotations

from collections.abc import Sequence

from ropewalk.inspector.records import Checkpoint
from ropewalk.inspector.tensors import Shape
from ropewalk.report.figures import plural
from ropewalk.report.folding import FoldedRow
from ropewalk.report.page import Page, table, words
from ropewalk.units import format_bytes


def tensors_page(checkpoint: Checkpoint, rows: Sequence[FoldedRow], *, sections: bool = True) -> Page:
    """The folded rows under a heading per block; without ``sections`` in the order given."""
    count, size = sum(row.count for row in rows), sum(row.total_bytes for row in rows)
    of_all = "" if count == len(checkpoint.tensors) else f" of {len(checkpoint.tensors):,}"
    noun = plural(count, "tensor").removeprefix(f"{count:,} ")
    title = words(
        (checkpoint.source, "strong"),
        f"  {count:,}{of_all} {noun} · {format_bytes(size)} · {plural(len(rows), 'row')}",
    )
    listed = [
        (row.name, row.dtype, shape_text(row.shape), f"{row.count:,}", format_bytes(row.total_bytes))
        for row in rows
    ]
    fronts = [row.section for row in rows] if sections and any(row.section for row in rows) else ()
    heads = "*name | dtype | >shape | >count | >size in all"
    return Page((table(heads, listed, sections=fronts),), title=title, is_list=True)


def shape_text(shape: Shape) -> str:
    """``[4096, 4096]``; a scalar is ``[]``."""
    return f"[{', '.join(str(dimension) for dimension in shape)}]"
