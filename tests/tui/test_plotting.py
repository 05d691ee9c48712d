"""Characters of a plot: where points and levels fall, which values are labelled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.tui.plotting import (
    Axis,
    Canvas,
    Level,
    Series,
    axis_over,
    draw,
    label_columns,
    label_rows,
    ticks,
)


def text(canvas: Canvas) -> list[str]:
    """The canvas without colours."""
    return ["".join(symbol for symbol, _ in row) for row in canvas.rows()]


def test_symbols_lie_at_their_shares() -> None:
    canvas = Canvas(5, 3)
    draw(canvas, [Series([(0, 0), (2, 1), (4, 2)], "", "o")], [], x_axis=Axis(0, 4), y_axis=Axis(0, 2))
    assert text(canvas) == ["    o", "  o  ", "o    "]


def test_a_line_touches_both_of_its_ends() -> None:
    canvas = Canvas(4, 2)
    draw(canvas, [Series([(0, 0), (1, 1)], "")], [], x_axis=Axis(0, 1), y_axis=Axis(0, 1))
    (bottom, _), (top, _) = canvas.dots[0, 1], canvas.dots[3, 0]
    assert bottom & 0x40  # the lowest dot on the left
    assert top & 0x08  # the highest dot on the right
    assert {column for column, _ in canvas.dots} == {0, 1, 2, 3}


def test_a_curve_near_a_level_is_seen() -> None:
    canvas = Canvas(24, 3)
    line = Series([(0.5, 10.0), (1.0, 10.0)], "")
    draw(canvas, [line], [Level(10, "planned", "")], x_axis=Axis(0, 1), y_axis=Axis(0, 10))
    assert text(canvas)[0].startswith("─ planned ──")
    assert text(canvas)[0].endswith("⠉" * 11)


def test_levels_in_one_row_have_both_names() -> None:
    canvas = Canvas(24, 3)
    levels = [Level(5, "trained", ""), Level(5.1, "asked", "", "╌")]
    draw(canvas, [], levels, x_axis=Axis(0, 1), y_axis=Axis(0, 10))
    assert text(canvas)[1] == "╌ trained ╌ asked ╌╌╌╌╌╌"


def test_logarithmic_axes_are_even_in_doublings() -> None:
    axis = Axis(1024, 1024**2, base=2)
    assert axis.share(32 * 1024) == pytest.approx(0.5)
    assert ticks(axis, 3) == [1024, 16384, 262144]


def test_round_steps_on_a_plain_axis() -> None:
    assert ticks(Axis(0, 95), 4) == [0, 50]
    assert ticks(Axis(0, 100), 5) == [0, 20, 40, 60, 80, 100]


def test_an_axis_over_one_value_is_still_an_axis() -> None:
    assert axis_over([5.0]) == Axis(0.0, 5.0)
    assert axis_over([8.0], base=2) == Axis(8.0, 16.0, 2)
    assert axis_over([0.0]) == Axis(0.0, 1.0)
    assert axis_over([]) == Axis(0.0, 1.0)


def test_labels_do_not_touch() -> None:
    line = label_columns(Axis(0, 100), 12, count=10, write=lambda value: f"{value:.0f}")
    assert line.split() == ["0", "20", "50", "80"] or "  " not in line.strip().replace(" ", "", 1)
    assert label_rows(Axis(0, 10), 11, count=2, write=str) == {10: "0.0", 5: "5.0", 0: "10.0"}


@given(
    st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)), min_size=1, max_size=20),
    st.integers(1, 40),
    st.integers(1, 20),
)
def test_nothing_is_drawn_outside(points: list[tuple[float, float]], width: int, height: int) -> None:
    canvas = Canvas(width, height)
    axes = {"x_axis": axis_over([x for x, _ in points]), "y_axis": axis_over([y for _, y in points])}
    draw(canvas, [Series(points, ""), Series(points, "", "o")], [], **axes)
    rows = canvas.rows()
    assert len(rows) == height
    assert all(len(row) == width for row in rows)
    assert all(0 <= column < width and 0 <= row < height for column, row in canvas.dots)
