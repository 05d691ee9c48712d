"""Tensors that differ only in the numbers of their names, folded into one row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ropewalk.inspector.tensors import Shape, TensorTable

_NUMBER = re.compile(r"(?<=\.)(\d+)(?=\.)")


@dataclass(frozen=True, slots=True)
class FoldedRow:
    """``count`` tensors of one dtype and shape; ``name`` has the numbers that occur, ``section`` its front.

    ``section`` is the name up to and including its first number, empty where it has none.
    """

    section: str
    name: str
    dtype: str
    shape: Shape
    count: int
    total_bytes: int


def fold_tensors(table: TensorTable, rows: Iterable[int]) -> list[FoldedRow]:
    """Fold the given rows of the table; the order is that of first appearance, section by section."""
    groups: dict[tuple[tuple[str, ...], str, Shape, int], list[tuple[str, ...]]] = {}
    for row in rows:
        parts = _NUMBER.split(table.names[row])
        key = (tuple(parts[::2]), table.dtypes[row], table.shapes[row], table.nbytes[row])
        groups.setdefault(key, []).append(tuple(parts[1::2]))
    folded = [_folded_row(*key, members) for key, members in groups.items()]
    order = {section: place for place, section in enumerate(dict.fromkeys(row.section for row in folded))}
    return sorted(folded, key=lambda row: order[row.section])


def plain_rows(table: TensorTable, rows: Iterable[int]) -> list[FoldedRow]:
    """The rows one by one, in the same form."""
    return [
        FoldedRow("", table.names[row], table.dtypes[row], table.shapes[row], 1, table.nbytes[row])
        for row in rows
    ]


def number_set(numbers: Sequence[int]) -> str:
    """``[0..35]`` in a row, ``[3..47:4]`` in steps, ``[0,1,5,...,61]`` otherwise; a single one plain."""
    if len(numbers) == 1:
        return str(numbers[0])
    step = numbers[1] - numbers[0]
    if len(numbers) > 2 and list(numbers) == list(range(numbers[0], numbers[-1] + 1, step)):
        return f"[{numbers[0]}..{numbers[-1]}" + (f":{step}]" if step > 1 else "]")
    listed = [str(number) for number in numbers]
    return f"[{','.join(listed if len(listed) <= 6 else [*listed[:3], '...', listed[-1]])}]"


def _folded_row(
    pieces: tuple[str, ...], dtype: str, shape: Shape, nbytes: int, members: Sequence[tuple[str, ...]]
) -> FoldedRow:
    numbers = [
        number_set(sorted({int(number) for number in set(column)})) for column in zip(*members, strict=True)
    ]
    name = pieces[0] + "".join(f"{number}{piece}" for number, piece in zip(numbers, pieces[1:], strict=True))
    section = pieces[0] + numbers[0] if numbers else ""
    return FoldedRow(section, name, dtype, shape, len(members), nbytes * len(members))
