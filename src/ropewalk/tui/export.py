"""Records as text for a file of one's own."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from ropewalk.inspector.tensors import TensorTable

_MAX_NAMES = 1000


def tensors_csv(table: TensorTable, rows: Sequence[int]) -> str:
    """Tensors as CSV with a header, one line each."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("name", "dtype", "shape", "elements", "bytes", "file", "offset"))
    for tensor in map(table.row, rows):
        shape = "x".join(map(str, tensor.shape))
        writer.writerow(
            (tensor.name, tensor.dtype, shape, tensor.elements, tensor.nbytes, tensor.file, tensor.offset)
        )
    return text.getvalue()


def write_new(folder: Path, name: str, text: str) -> Path:
    """Write a file that was not there before: ``NAME-2.csv`` where ``NAME.csv`` is. Raises OSError."""
    wanted = Path(name)
    for number in range(1, _MAX_NAMES):
        path = folder / (name if number == 1 else f"{wanted.stem}-{number}{wanted.suffix}")
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{folder / name} and {_MAX_NAMES - 2} like it exist")
