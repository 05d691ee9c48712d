"""Published speeds of one request at a time (``docs/speeds.json``), beside what is predicted of them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from ropewalk.core import inspect
from ropewalk.planner.caches import CacheType
from ropewalk.planner.cards import find_cards
from ropewalk.planner.compute import work_of
from ropewalk.planner.engines import rules_of
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import Speed
from ropewalk.planner.roofline import Attained, roofline_speed
from ropewalk.planner.shape import ModelShape
from ropewalk.units import GIB

DATA = json.loads((Path(__file__).parents[2] / "docs" / "speeds.json").read_text("utf-8"))
_F16 = CacheType("f16", 1, 2)


@dataclass(frozen=True, slots=True)
class Figure:
    """One published figure: ``what`` it is, and the range that is predicted."""

    engine: str
    kind: str
    row: dict[str, Any]
    what: str
    published: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        return self.low <= self.published <= self.high

    @property
    def factor(self) -> float:
        """How many times the middle of the range is off, whichever way."""
        middle: float = (self.low * self.high) ** 0.5
        return max(middle / self.published, self.published / middle)


def figures() -> Iterator[Figure]:
    """Every figure of every row that is not left out."""
    for row in DATA["rows"]:
        machine = _machine(row["card"])
        attained = rules_of(row["engine"]).ATTAINED[machine.memory_kind or "gddr"]
        shape = _shape(row["model"], row.get("file_gib"))

        kind = machine.memory_kind or ""
        lengths = (row["prompt"] + row["generated"] // 2, row["prompt"])
        middle, prompt = (_speed(shape, length, machine, attained) for length in lengths)
        decode = middle.decode_tokens_per_second_low or 0.0, middle.decode_tokens_per_second_high or 0.0
        prefill = prompt.prefill_seconds_low or 0.0, prompt.prefill_seconds_high or 0.0
        if "decode_tokens_per_second" in row:
            yield Figure(row["engine"], kind, row, "decode", row["decode_tokens_per_second"], *decode)
        if "prefill_tokens_per_second" in row and "prefill_left_out" not in row:
            rates = row["prompt"] / prefill[1], row["prompt"] / prefill[0]
            yield Figure(row["engine"], kind, row, "prefill", row["prefill_tokens_per_second"], *rates)
        if "tokens_per_second" in row:
            tokens = row["prompt"] + row["generated"]
            slow = prefill[1] + row["generated"] / decode[0]
            fast = prefill[0] + row["generated"] / decode[1]
            yield Figure(
                row["engine"], kind, row, "both", row["tokens_per_second"], tokens / slow, tokens / fast
            )


def _speed(shape: ModelShape, length: int, machine: Machine, attained: Attained) -> Speed:
    work = work_of(shape, length=max(length, 1), key=_F16, value=_F16)
    found = roofline_speed(work, machine, attained, num_layers=shape.num_layers)
    assert found is not None
    return found


def _machine(name: str) -> Machine:
    own = DATA["cards"].get(name)
    return Machine(kind="gpu", name=name, **own) if own else find_cards(name).machine()


@cache
def _shape(name: str, file_gib: float | None) -> ModelShape:
    """The model as its config says, its weights scaled to the size of the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(DATA["models"][name]))
        shape = shape_of(inspect(path))
    weights = shape.weights
    scale = file_gib * GIB / weights.total if file_gib else 1.0
    scaled = replace(
        weights,
        embedding=int(weights.embedding * scale),
        output_head=int(weights.output_head * scale),
        other=int(weights.other * scale),
        layers=tuple(int(size * scale) for size in weights.layers),
    )
    return replace(shape, weights=scaled)
