"""Stored bytes by place."""

from __future__ import annotations

from collections.abc import Iterable

from ropewalk.inspector.derive.names import Row
from ropewalk.inspector.derive.parameters import is_routed_expert
from ropewalk.inspector.derive.places import Places
from ropewalk.inspector.records import WeightBytes


def weight_bytes(places: Places, num_layers: int) -> WeightBytes:
    """Bytes as stored, scales and buffers included, so that the parts sum to the tensors' bytes."""
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
    )


def _total(rows: Iterable[Row]) -> int:
    return sum(row.nbytes for row in rows)
