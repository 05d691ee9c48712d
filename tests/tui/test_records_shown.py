"""How records become lines and bars, without an application: sums, marks, colours, symbols."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli import records
from tests.tui.doubles import RUN, grid_trials, measuring
from textual.content import Content

from ropewalk.measuring import events
from ropewalk.planner.records import Memory, MemoryTerm, Plan, Speed
from ropewalk.report.grid import MARKS
from ropewalk.tui.curves import fitted, memory_figure, planned_bytes, prefill_figure
from ropewalk.tui.export import write_new
from ropewalk.tui.runview import RunView, stored_view
from ropewalk.tui.text import clean, short_count, shown
from ropewalk.tui.widgets.heatmap import style_of
from ropewalk.tui.widgets.layer_strip import strip
from ropewalk.tui.widgets.memory_bar import LOOKS, look, stacked
from ropewalk.tui.widgets.slider import FACTORS, LENGTHS, plan_marks, slider_range
from ropewalk.tui.widgets.work_bar import work_lines
from ropewalk.units import GIB, MIB


def spans(content: Content) -> dict[str, int]:
    """Characters by style."""
    counts: dict[str, int] = {}
    for span in content.spans:
        counts[str(span.style)] = counts.get(str(span.style), 0) + span.end - span.start
    return counts


def plan_of(*gibs: int, budget: int | None) -> Plan:
    """A plan with a term of each size, all exact."""
    names = ("weights", "kv_cache", "state", "logits")
    terms = tuple(
        MemoryTerm(name, size * GIB, size * GIB, size * GIB, "exact", "")
        for name, size in zip(names, gibs, strict=False)
    )
    base = records.qwen3_plan()
    total = sum(gibs) * GIB
    memory = Memory(terms, total, total, base.memory.kv, base.memory.per_device)
    return replace(
        base, memory=memory, fit=replace(base.fit, budget_bytes=None if budget is None else budget * GIB)
    )


def test_a_bar_shows_terms_by_size_and_ends_where_the_device_does() -> None:
    bar = stacked(plan_of(10, 20, budget=40), 40)
    assert bar.plain == "█" * 10 + "▓" * 20 + "·" * 9 + "┃"
    assert spans(bar) == {"$blue": 10, "$orange": 20, "$frame": 9, "bold $foreground": 1}


def test_what_lies_beyond_the_device_is_marked() -> None:
    bar = stacked(plan_of(10, 30, budget=20), 40)
    assert bar.plain == "█" * 10 + "▓" * 10 + "┃" + "▓" * 19
    assert spans(bar)["bold $error"] == 19


def test_estimates_end_in_a_shaded_range() -> None:
    plan = plan_of(10, budget=40)
    guess = replace(plan.memory.terms[0], low_bytes=10 * GIB, high_bytes=20 * GIB)
    plan = replace(plan, memory=replace(plan.memory, terms=(guess,), high_bytes=20 * GIB))
    assert stacked(plan, 40).plain == "█" * 10 + "░" * 10 + "·" * 19 + "┃"


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=4),
    st.none() | st.integers(1, 600),
    st.integers(8, 200),
)
def test_a_bar_is_always_as_wide_as_its_room(sizes: list[int], budget: int | None, width: int) -> None:
    assert stacked(plan_of(*sizes, budget=budget), width).cell_length == width


def test_neighbours_in_a_bar_differ_without_colour() -> None:
    engines = (
        ("weights", "kv_cache", "activations", "cuda_graphs", "process_overhead"),
        ("weights", "kv_cache", "state", "output_buffer", "compute_buffer", "process_overhead"),
        ("weights", "kv_cache", "activations", "logits", "score_matrix", "process_overhead"),
    )
    for names in engines:
        symbols = [look(name)[0] for name in names]
        assert len(set(symbols)) == len(symbols)
    assert look("something_new") == ("~", "$grey")
    assert all(len(symbol) == 1 for symbol, _ in LOOKS.values())


def test_outcomes_differ_without_colour() -> None:
    assert len({mark.symbol for mark in MARKS.values()}) == len(MARKS)
    assert style_of(MARKS["hit"]) != style_of(MARKS["miss"]) != style_of(MARKS["refused"])


def test_layers_are_a_strip_in_words_and_symbols() -> None:
    drawn = strip(records.hybrid_layers())
    assert drawn.plain == "5 sliding 1,024 + 1 full, x 10, + 2 sliding 1,024  " + "▒▒▒▒▒█" * 10 + "▒▒"
    assert spans(drawn)["$blue"] == 52


@pytest.mark.parametrize(
    ("value", "snapped"),
    [(63, 64), (100, 128), (2100, 2048), (20_000, 20_480), (131_071, 131_072), (1, 64)],
)
def test_lengths_snap_to_what_people_write(value: int, snapped: int) -> None:
    assert LENGTHS.snap(value) == snapped


def test_factors_snap_to_quarters_halves_and_wholes() -> None:
    assert [FACTORS.snap(value) for value in (1.3, 3.9, 4.2, 7.7, 8.4)] == [1.25, 4.0, 4.0, 7.5, 8.0]


def test_the_slider_reaches_beyond_every_mark() -> None:
    plan = records.qwen3_plan()
    names = [mark.name for mark in plan_marks(plan)]
    assert names == ["fits 188,416", "trained 32,768", "published 131,072", "crossover 47,104"]
    assert slider_range(list(plan_marks(plan))) == (1024, 1024**2)
    far = replace(plan, native_context=10 * 1024**2)
    assert slider_range(list(plan_marks(far))) == (1024, 16 * 1024**2)
    short = replace(plan, native_context=512, supported_context=None)
    assert slider_range(list(plan_marks(short)))[0] == 256


def test_a_view_follows_what_a_run_tells() -> None:
    view = RunView("")
    for event in measuring():
        view = view.after(event)
    assert view.run_id == "20261130-1800-beef"
    assert [(arm.label, arm.context_len) for arm in view.arms] == [("as shipped", 8192), ("YaRN 1.5", 12288)]
    assert len(view.trials) == 15
    assert view.current is not None
    assert view.cells()["shipped", "niah_single", 1945, 0.3].hits == 0
    assert view.progress is not None
    assert view.progress.seconds_left == 75.0
    assert [sample.moment for sample in view.arms[0].samples] == ["loaded", "ubatch", "longest"]
    ended = view.after(events.RunEnded(RUN))
    assert (ended.status, ended.measurement) == ("finished", RUN)
    assert len(ended.arms) == 3


def test_a_fitted_curve_passes_the_points_that_the_plan_explains() -> None:
    compute = records.qwen3_plan().compute
    assert compute is not None
    view = stored_view(RUN, grid_trials())
    points = [arm.result.speed for arm in view.arms if arm.result][1]
    curve = dict(fitted(points, compute, context_len=131072, longest=12288))
    seconds = sum(point.prefill_seconds for point in points)
    nearest = [curve[min(curve, key=lambda length: abs(length - point.length))] for point in points]
    assert sum(nearest) == pytest.approx(seconds, rel=0.1)  # the pace is that of all points together
    assert curve[12288.0] > 2 * curve[6144.0]  # longer prompts cost more than in proportion


@pytest.mark.parametrize(
    ("speed", "lines"),
    [
        (None, []),
        (
            Speed("bound", "reading the weights", None, 41.25),
            ["decode    at most 41.2 tokens/s", "          bound: reading the weights"],
        ),
        (
            Speed("calibrated", "run 1", 300.0, 10.0, 240.0, 360.0, 8.0, 12.0),
            [
                "wait      5 min 0 s for the prompt, 4 min 0 s – 6 min 0 s",
                "decode    10.0 tokens/s, 8.0 – 12.0",
                "          calibrated: run 1",
            ],
        ),
    ],
)
def test_a_speed_says_whether_it_was_measured(speed: Speed | None, lines: list[str]) -> None:
    plan = records.qwen3_plan()
    assert plan.compute is not None
    drawn = [line.plain for line in work_lines(plan, replace(plan.compute, speed=speed), 60)]
    assert drawn[5:] == lines


def test_figures_have_an_arm_each() -> None:
    view = stored_view(RUN, grid_trials())
    prefill = prefill_figure(view, records.qwen3_plan().compute, 131072)
    assert prefill is not None
    assert len(prefill.series) == 1 + 3
    assert memory_figure(view, None) is None  # no samples in this record
    assert planned_bytes(view.arms, None) == 12288 * 23040 + 28 * MIB


def test_words_for_values() -> None:
    assert [shown(value) for value in (None, True, 4096, 1e6, "x", {"a": 1})] == [
        "–", "yes", "4,096", "1,000,000", "x", '{"a": 1}',
    ]  # fmt: skip
    assert [short_count(count) for count in (0, 999, 1500, 622_329_856, 6_946_071_552)] == [
        "0", "999", "1.5 k", "622 M", "6.95 B",
    ]  # fmt: skip
    assert clean("a\x1b[31m\n\x85b") == "a·[31m··b"


def test_no_file_is_written_over(tmp_path: Path) -> None:
    paths = [write_new(tmp_path, "run.csv", text) for text in ("one", "two", "three")]
    assert [path.name for path in paths] == ["run.csv", "run-2.csv", "run-3.csv"]
    assert paths[0].read_text() == "one"
