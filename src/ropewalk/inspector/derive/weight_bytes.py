"""Stored bytes by place and, for GGUF, by name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ropewalk.inspector.derive.names import Row
from ropewalk.inspector.derive.parameters import is_routed_expert
from ropewalk.inspector.derive.places import Places
from ropewalk.inspector.records import NamedBytes, WeightBytes
from ropewalk.inspector.tensors import TensorTable

_BLOCK = re.compile(r"^((?:enc\.|dec\.)?blk\.)([0-9]+)\.")


def weight_bytes(places: Places, num_layers: int, *, named: TensorTable | None = None) -> WeightBytes:
    """Bytes as stored, scales and buffers included, so that the parts sum to the tensors' bytes.

    ``named`` are the tensors of a GGUF, kept by name as well.
    """
    layers = [places.layers.get(index, []) for index in range(num_layers)]
    beyond = [row for index, rows in places.layers.items() if index >= num_layers for row in rows]
    return WeightBytes(
        embedding=_total(places.embedding),
        output_head=_total(places.output_head),
        other=_total(places.other) + _total(beyond),
        layers=tuple(_total(rows) for rows in layers),
        experts=tuple(
            _total(row for row in rows if is_routed_expert(row.name, row.shape)) for rows in layers
        ),
        mtp=_total(places.mtp_rows()),
        towers=_total(places.tower_rows()),
        tensors=() if named is None else named_bytes(named),
    )


def named_bytes(tensors: TensorTable) -> tuple[NamedBytes, ...]:
    """Bytes by name, the blocks of a name gathered, in the order of the file."""
    gathered: dict[str, dict[int | None, int]] = {}
    for name, size in zip(tensors.names, tensors.nbytes, strict=True):
        found = _BLOCK.match(name)
        block = int(found[2]) if found else None
        general = f"{found[1]}*.{name[found.end() :]}" if found else name
        gathered.setdefault(general, {})[block] = size
    return tuple(
        NamedBytes(name, tuple(block for block in sizes if block is not None), tuple(sizes.values()))
        for name, sizes in gathered.items()
    )


def _total(rows: Iterable[Row]) -> int:
    return sum(row.nbytes for row in rows)
