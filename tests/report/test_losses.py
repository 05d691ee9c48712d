"""Losses in the page, in HTML and as series to be drawn."""

from __future__ import annotations

from dataclasses import replace

from tests.cli import records

from ropewalk.measuring.loss.records import FactorCost, LossBin, LossCurve, PairedLoss, ProbeText
from ropewalk.measuring.records import Measurement
from ropewalk.report.html import measurement_html
from ropewalk.report.losses import factor_table, loss_pairs_table, loss_series, loss_table
from ropewalk.report.measurement import measurement_page
from ropewalk.report.page import Table, lines_of

BASE = LossBin(2048, 8192, 192, 2.25, 2.1, 2.4)
FAR = LossBin(10_240, 12_288, 64, 3.75, 3.5, 4.0)
BINS = (LossBin(0, 2048, 56, 2.5, None, None), BASE, FAR)
RISE = replace(FAR, mean=1.5, low=1.25, high=1.75)
BROKEN = LossCurve("loss", BINS, BASE, 10_240, RISE)
FLAT = LossCurve("loss", (BINS[0], BASE, replace(FAR, mean=2.2, low=2.0, high=2.4, bounds=1)), BASE)
PAIR = PairedLoss(
    "loss", "yarn:1.5", "unscaled", 312, BINS, replace(FAR, mean=0.7, low=0.5, high=0.9),
    inside=replace(BASE, mean=-0.02, low=-0.05, high=0.01), beyond=RISE, parts_at=10_240,
)  # fmt: skip
COPIES = PairedLoss("copy", "yarn:1.5", "unscaled", 192, BINS, replace(FAR, mean=2.0, low=1.0, high=3.0))


def measurement() -> Measurement:
    run = records.smollm2_measurement()
    arms = tuple(replace(arm, losses=(BROKEN if arm.arm == "unscaled" else FLAT,)) for arm in run.arms)
    assert run.comparison is not None
    comparison = replace(
        run.comparison, losses=(PAIR, COPIES), loss_verdict="beyond the trained length unscaled loses more"
    )
    return replace(run, arms=arms, comparison=comparison, texts=(ProbeText("notes.txt", "ab" * 32, 12_271),))


def rows_of(table: Table) -> list[tuple[str, ...]]:
    return [tuple(map(str, row)) for row in table.rows]


def test_a_bin_has_its_mean_its_interval_and_a_mark_for_a_lower_bound() -> None:
    arms = measurement().arms
    table = loss_table(arms, "loss")
    unscaled = [arm.arm for arm in arms].index("unscaled") + 1
    shown = rows_of(table)
    assert [row[0] for row in shown] == ["0 to 2,048", "2,048 to 8,192", "10,240 to 12,288"]
    assert [row[unscaled] for row in shown] == ["2.50", "2.25 (2.10 to 2.40)", "3.75 (3.50 to 4.00)"]
    assert shown[2][1] == "≥ 2.20 (2.00 to 2.40)"
    assert "unscaled: from 10,240 tokens on 1.50 nats (1.25 to 1.75) above its base of 2.25" in map(
        str, table.notes
    )


def test_pairs_say_where_which_arm_loses_more() -> None:
    labels = {"yarn:1.5": "YaRN 1.5", "unscaled": "unscaled"}
    table = loss_pairs_table((PAIR, COPIES), labels)
    assert rows_of(table) == [
        ("unscaled less YaRN 1.5", "within the trained length", "-0.02 (-0.05 to +0.01)", "192"),
        ("unscaled less YaRN 1.5", "beyond it", "+1.50 (+1.25 to +1.75)", "64"),
        ("unscaled less YaRN 1.5", "repeated passages", "+2.00 (+1.00 to +3.00)", "64"),
    ]
    assert "unscaled and YaRN 1.5 part from 10,240 tokens" in map(str, table.notes)


def test_factors_stand_with_the_best_first() -> None:
    table = factor_table((FactorCost("yarn:2", None, PAIR.inside), FactorCost("yarn:4", RISE, None)), {})
    assert rows_of(table) == [
        ("yarn:2", "least", "-0.02 (-0.05 to +0.01)"), ("yarn:4", "+1.50 (+1.25 to +1.75)", "–")
    ]  # fmt: skip


def test_a_series_has_the_middle_of_each_bin() -> None:
    series = loss_series(measurement().arms, "loss")
    assert [len(one.points) for one in series] == [3] * len(measurement().arms)
    assert [point.x for point in series[0].points] == [1024, 5120, 11_264]
    assert loss_series(measurement().arms, "copy") == ()


def test_the_page_and_the_report_show_curves_pairs_and_texts() -> None:
    run = measurement()
    page = "\n".join(map(str, lines_of(measurement_page(run))))
    for said in ("loss by position", "by loss", "notes.txt", "abababababababab", "beyond it"):
        assert said in page
    html = measurement_html(run)
    for said in (
        "<h2>Loss by position</h2>",
        'class="band"',
        "nats per token",
        "The same tokens",
        "notes.txt",
    ):
        assert said in html
