"""A plan beside a log as numbers alone: what may be shared of a start to make plans better.

No name, path, host or word of the command is in it: settings are those flags whose values are numbers or
switches, the model is its dimensions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ropewalk.checking.log_report import LogReport, LogTerm
from ropewalk.inspector.records import Inspection

Number = int | float | bool

# Numbers of a command that say something of who ran it, or nothing of memory.
_PRIVATE = frozenset({"--port", "--seed", "--api-server-count", "--master-port", "--node-rank"})
_DIMENSIONS = (
    "num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size", "num_attention_heads",
    "num_key_value_heads", "head_dim", "num_experts", "num_experts_per_tok", "moe_intermediate_size",
    "kv_lora_rank", "max_position_embeddings", "sliding_window", "mtp_layers", "tie_word_embeddings",
)  # fmt: skip
_VERSION = re.compile(r"b?\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class ReceiptTerm:
    """One figure in bytes, tokens or sequences: planned from ``low`` to ``high``, and printed within
    ``rounding``; None where it is not known."""

    name: str
    low: int | None
    high: int | None
    printed: int | None
    rounding: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """One start. ``settings`` are the flags that are numbers or switches, ``model`` its dimensions, empty
    where the checkpoint was not at hand."""

    engine: str
    engine_version: str | None
    settings: dict[str, Number]
    model: dict[str, Number]
    terms: tuple[ReceiptTerm, ...]


@dataclass(frozen=True, slots=True)
class Receipts:
    """Plans beside logs, one row each."""

    rows: tuple[Receipt, ...]
    schema: str = "ropewalk.receipts/1"


def receipt_of(report: LogReport, inspection: Inspection | None) -> Receipt:
    """The row of a log that was read."""
    parsed = report.check.parsed if report.check else {}
    version = _VERSION.match(report.engine_version or "")
    return Receipt(
        engine=report.engine,
        engine_version=version[0] if version else None,
        settings={
            flag: value
            for flag, value in parsed.items()
            if isinstance(value, int | float) and flag not in _PRIVATE
        },
        model=dict(_dimensions(inspection)) if inspection else {},
        terms=tuple(_term(term) for term in (*report.lengths, *report.memory) if _is_known(term)),
    )


def _dimensions(inspection: Inspection) -> Iterator[tuple[str, Number]]:
    for name in _DIMENSIONS:
        value = inspection.value(name)
        if isinstance(value, int | float):
            yield name, value


def _is_known(term: LogTerm) -> bool:
    return term.printed is not None or term.planned_low is not None


def _term(term: LogTerm) -> ReceiptTerm:
    return ReceiptTerm(term.name, term.planned_low, term.planned_high, term.printed, term.rounding)
