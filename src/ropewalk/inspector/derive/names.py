"""Tensor names to places: the stack of blocks a tensor belongs to, its block, its name within the block.

A checkpoint has up to 100,000 tensors but few different ones: those that differ only in the expert's
number are one row here, so that everything after this module works on a few rows per block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ropewalk.inspector.tensors import Shape, TensorTable

_BLOCK_NUMBER = re.compile(r"(?:^|\.)(\d{1,9})\.", re.ASCII)
_EXPERT_NUMBER = re.compile(r"((?:^|\.)(?:\w*experts?|ffn_(?:gate|up|down)))\.\d+(?=\.|$)", re.ASCII)

# (relative name, dtype, shape) to [how many, bytes of each]
_Counts = dict[tuple[str, str, Shape], list[int]]


@dataclass(frozen=True, slots=True)
class Row:
    """Equal tensors of one block: ``name`` is relative to the block, ``*`` the number of an expert.

    ``count`` is how many there are (more than one only for experts), ``nbytes`` their bytes together.
    """

    name: str
    dtype: str
    shape: Shape
    count: int
    nbytes: int


@dataclass(slots=True)
class Stack:
    """Numbered blocks under one prefix, as ``model.layers.``; ``blocks`` by number, in order of number."""

    prefix: str
    blocks: dict[int, list[Row]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Stored bytes of all blocks."""
        return sum(row.nbytes for rows in self.blocks.values() for row in rows)


@dataclass(frozen=True, slots=True)
class Names:
    """All tensors by place: the stacks by prefix, and the tensors outside of any stack."""

    stacks: dict[str, Stack]
    loose: list[Row]

    def rows(self) -> Iterable[Row]:
        """Every row, stacks first."""
        for stack in self.stacks.values():
            for rows in stack.blocks.values():
                yield from rows
        yield from self.loose


def relative_name(name: str) -> str:
    """The name within its block; whole where it is outside of any."""
    match = _BLOCK_NUMBER.search(name)
    return _EXPERT_NUMBER.sub(r"\1.*", name[match.end() :]) if match else name


def sort_names(table: TensorTable) -> Names:
    """Group the tensors of a checkpoint by stack, block and relative name: one pass, no regex per tensor.

    Neighbours mostly share their block, so its prefix is tried before the name is taken apart.
    """
    blocks: dict[tuple[str, int], _Counts] = {}
    loose: list[Row] = []
    short_names: dict[str, str] = {}
    here, cut = "", 0
    counts: _Counts = {}
    columns = zip(table.names, table.dtypes, table.shapes, table.nbytes, strict=True)
    for name, dtype, shape, nbytes in columns:
        if not (cut and name.startswith(here)):
            match = _BLOCK_NUMBER.search(name)
            if match is None:
                loose.append(Row(name, dtype, shape, 1, nbytes))
                continue
            cut = match.end()
            here = name[:cut]
            counts = blocks.setdefault((name[: match.start(1)], int(match[1])), {})
        rest = name[cut:]
        short = short_names.get(rest)
        if short is None:
            short = short_names[rest] = _EXPERT_NUMBER.sub(r"\1.*", rest)
        key = (short, dtype, shape)
        entry = counts.get(key)
        if entry is None:
            counts[key] = [1, nbytes]
        else:
            entry[0] += 1
    return Names(_stacks(blocks), loose)


def _stacks(blocks: dict[tuple[str, int], _Counts]) -> dict[str, Stack]:
    stacks: dict[str, Stack] = {}
    for (prefix, number), counts in sorted(blocks.items()):
        rows = [Row(*key, count, count * each) for key, (count, each) in counts.items()]
        stacks.setdefault(prefix, Stack(prefix)).blocks[number] = rows
    return stacks
