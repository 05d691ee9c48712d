"""``ropewalk tensors``: every tensor of a checkpoint."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, checkpoint_argument, json_option, option
from ropewalk.errors import UsageError
from ropewalk.inspector.records import Checkpoint
from ropewalk.inspector.tensors import Tensor, TensorTable

_ORDERS: dict[str, Callable[[TensorTable, int], Any]] = {
    "file": lambda table, row: row,
    "name": lambda table, row: table.names[row],
    "size": lambda table, row: -table.nbytes[row],
}


@click.command(
    "tensors",
    cls=Command,
    examples="""
        ropewalk tensors ./Qwen3-8B
        ropewalk tensors ./Qwen3-8B --match '*.layers.0.*' --sort size
        ropewalk tensors model.gguf --csv > tensors.csv
    """,
)
@checkpoint_argument
@option("--match", metavar="GLOB", help="Only tensors whose whole name matches, such as '*.layers.0.*'.")
@option("--sort", type=click.Choice(list(_ORDERS)), default="file", show_default=True, help="Order of rows.")
@option("--unfold", is_flag=True, help="A row for every tensor, identical blocks too.")
@option("--csv", "as_csv", is_flag=True, help="Comma-separated values, a row for every tensor.")
@json_option
def command(checkpoint: str, match: str | None, sort: str, unfold: bool, as_csv: bool, as_json: bool) -> int:
    """List the tensors with dtype, shape and bytes; blocks that are alike share a row."""
    if as_csv and as_json:
        raise UsageError("--csv and --json exclude each other")
    with output.waiting(f"reading the headers of {checkpoint}"):
        opened = core.open_checkpoint(checkpoint)
    rows = _sorted(opened.tensors, core.matching(opened, match), sort)
    if as_json:
        output.document(core.tensors(opened, rows), compact=True)
    elif as_csv:
        output.write(_csv(opened.tensors.row(row) for row in rows))
    else:
        _page(opened, rows, sort, unfold)
    if match is not None and not rows:
        click.echo(f"no tensor matches {match!r}", err=True)
        return 1
    return 0


def _sorted(table: TensorTable, rows: Sequence[int], sort: str) -> list[int]:
    order = _ORDERS[sort]
    return sorted(rows, key=lambda row: order(table, row))


def _csv(tensors: Iterable[Tensor]) -> str:
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(("name", "dtype", "shape", "bytes", "file", "offset"))
    for tensor in tensors:
        shape = "x".join(str(dimension) for dimension in tensor.shape)
        writer.writerow((tensor.name, tensor.dtype, shape, tensor.nbytes, tensor.file, tensor.offset))
    return lines.getvalue()


def _page(checkpoint: Checkpoint, rows: Sequence[int], sort: str, unfold: bool) -> None:
    from ropewalk.report.folding import fold_tensors, plain_rows
    from ropewalk.report.tensors import tensors_page

    folded = plain_rows(checkpoint.tensors, rows) if unfold else fold_tensors(checkpoint.tensors, rows)
    if sort == "name":
        folded.sort(key=lambda row: row.name)
    elif sort == "size":
        folded.sort(key=lambda row: -row.total_bytes)
    output.page(tensors_page(checkpoint, folded, sections=sort == "file" and not unfold))
