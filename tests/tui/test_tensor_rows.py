"""Filtering and sorting rows of a table."""

from __future__ import annotations

import pytest
from tests.tui.doubles import qwen3_table, table_of

from ropewalk.tui.tensor_rows import Column, TensorRows

TABLE = table_of([
    ("b.Weight", "BF16", (2, 2), 8),
    ("a.weight", "F32", (3,), 12),
    ("c.scale", "F8_E4M3", (9,), 9),
])  # fmt: skip


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["b.Weight", "a.weight", "c.scale"]),
        ("weight", ["b.Weight", "a.weight"]),
        ("Weight", ["b.Weight"]),
        ("f8", ["c.scale"]),
        ("weight bf", ["b.Weight"]),
        ("weight scale", []),
        ("e4m3", []),
    ],
)
def test_every_word_counts_and_capitals_where_typed(text: str, names: list[str]) -> None:
    found = TensorRows(TABLE).matching(range(3), text)
    assert [TABLE.names[row] for row in found] == names


@pytest.mark.parametrize(
    ("column", "order"),
    [
        ("stored", [0, 1, 2]),
        ("name", [1, 0, 2]),
        ("dtype", [0, 1, 2]),
        ("elements", [1, 0, 2]),
        ("bytes", [0, 2, 1]),
    ],
)
def test_each_column_sorts(column: Column, order: list[int]) -> None:
    rows = TensorRows(TABLE)
    assert list(rows.ordered(range(3), column, backwards=False)) == order
    assert list(rows.ordered(range(3), column, backwards=True)) == order[::-1]


def test_what_was_found_can_be_searched_again() -> None:
    table = qwen3_table()
    rows = TensorRows(table)
    layer = rows.matching(range(len(table)), "layers.17.")
    assert len(layer) == 11
    assert [table.names[row] for row in rows.matching(layer, "q_")] == [
        "model.layers.17.self_attn.q_norm.weight",
        "model.layers.17.self_attn.q_proj.weight",
    ]
