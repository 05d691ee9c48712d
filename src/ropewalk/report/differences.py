"""The page of ``ropewalk compare``: only what differs, section by section."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ropewalk.differences import Difference, Differences
from ropewalk.report.page import Block, Page, Table, fields, findings_block, table
from ropewalk.units import format_bytes

_WIDE = 60


def differences_page(found: Differences) -> Page:
    """The two names, what differs, and what was not compared."""
    return Page(tuple(_blocks(found)))


def _blocks(found: Differences) -> Iterator[Block]:
    number = len(found.differences)
    said = f"{number:,} differ, {found.same:,} are the same" if number else f"all {found.same:,} are the same"
    yield fields(
        [
            ("EQUAL" if not number else "DIFFERS", said),
            ("a", f"{found.a.name}  ({found.a.kind})"),
            ("b", f"{found.b.name}  ({found.b.kind})"),
        ]
    )
    for section, rows in groupby(found.differences, key=lambda one: one.section):
        yield fields([(section, _table(section, list(rows)))])
    if found.findings:
        yield fields([("findings", findings_block(found.findings))])


def _table(section: str, rows: list[Difference]) -> Table:
    shown = ((_name(row), _value(row, row.a), _value(row, row.b)) for row in rows)
    return table("name | *a | *b", shown)


def _name(row: Difference) -> str:
    return row.name if row.count == 1 else f"{row.name}  x {row.count:,}"


def _value(row: Difference, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, dict) and value.keys() == {"low", "high"}:
        low, high = format_bytes(value["low"]), format_bytes(value["high"])
        return low if low == high else f"{low} – {high}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return (
            format_bytes(value)
            if row.name.endswith("bytes") or row.section == "memory measured"
            else f"{value:,}"
        )
    text = str(value)
    return text if len(text) <= _WIDE else f"{text[: _WIDE - 1]}…"
