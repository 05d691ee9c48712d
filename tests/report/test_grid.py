"""The recall grid: what is pooled, what is not judged, which mark a cell gets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cli import records

from ropewalk.measuring.recall.statistics import wilson
from ropewalk.measuring.records import RecallCell
from ropewalk.report.grid import Heatmap, heatmaps, pooled


def grid(*cells: RecallCell) -> Heatmap:
    run = records.smollm2_measurement()
    return heatmaps(replace(run, arms=(replace(run.arms[0], cells=cells),)))[0]


@pytest.mark.parametrize(
    ("marks", "symbol"),
    [("#", "■"), ("###", "■"), (".", "·"), ("x", "x"), ("R", "–"), ("..x", "·"), ("xx.", "x"), ("T", "t")],
)
def test_a_cell_of_one_kind_or_without_hits_shows_its_commonest_outcome(marks: str, symbol: str) -> None:
    (strip,) = grid(records.cell(1000, 0.5, marks)).rows[1000]
    assert strip is not None
    assert strip.squares[0].mark.symbol == symbol


@pytest.mark.parametrize(("marks", "symbol"), [("#.", "▄"), ("###########.", "▇"), ("#...........", "▁")])
def test_a_cell_whose_trials_disagree_shows_a_height(marks: str, symbol: str) -> None:
    heatmap = grid(records.cell(1000, 0.5, marks))
    (strip,) = heatmap.rows[1000]
    assert strip is not None
    assert strip.squares[0].mark.symbol == symbol
    assert [mark.words for mark in heatmap.marks()] == ["part of the trials"]


def test_refused_trials_are_not_judged() -> None:
    (strip,) = grid(records.cell(1000, 0.0, "R"), records.cell(1000, 1.0, "#")).rows[1000]
    assert strip is not None
    assert (strip.hits, strip.judged, strip.interval) == (1, 1, wilson(1, 1))


def test_depths_are_pooled_in_order_of_depth() -> None:
    (strip,) = grid(records.cell(1000, 1.0, "x"), records.cell(1000, 0.0, "#")).rows[1000]
    assert strip is not None
    assert [square.mark.symbol for square in strip.squares] == ["■", "x"]
    assert pooled(strip) == "1/2 9–91%"


def test_a_length_that_an_arm_did_not_run_is_no_zero() -> None:
    run = records.smollm2_measurement()
    first = replace(run.arms[0], cells=(records.cell(1000, 0.5, "#"),))
    second = replace(run.arms[1], cells=(records.cell(2000, 0.5, "."),))
    rows = heatmaps(replace(run, arms=(first, second)))[0].rows
    assert list(rows) == [1000, 2000]
    assert rows[1000][1] is None
    assert rows[2000][0] is None


def test_tasks_have_a_grid_each() -> None:
    run = records.smollm2_measurement()
    cells = (records.cell(1000, 0.5, "#"), records.cell(1000, 0.5, ".", task="vt"))
    assert [
        heatmap.task for heatmap in heatmaps(replace(run, arms=(replace(run.arms[0], cells=cells),)))
    ] == [
        "niah_single",
        "vt",
    ]
