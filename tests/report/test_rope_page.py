"""The page of ``rope``: the plot tells the story, the table has the pairs where something begins."""

from __future__ import annotations

from dataclasses import replace

from tests.cli import records
from tests.report.render import check_page, render

from ropewalk.report.rope import rope_page, wavelength_plot


def pairs_listed(text: str) -> list[int]:
    rows = text[text.index("pair ") :].splitlines()[1:]
    return [int(row.split()[0]) for row in rows]


def test_rope_page() -> None:
    check_page("rope", rope_page(records.qwen3_rope()))


def test_the_pairs_where_scaling_and_incompleteness_begin_are_listed() -> None:
    listed = pairs_listed(render(rope_page(records.qwen3_rope())))
    assert {0, 1, 23, 24, 39, 40, 63} <= set(listed)
    assert listed == sorted(listed)
    assert pairs_listed(render(rope_page(records.qwen3_rope(), all_pairs=True))) == list(range(64))


def test_the_known_wavelengths_are_on_the_page() -> None:
    text = render(rope_page(records.qwen3_rope(), all_pairs=True))
    rows = {row.split()[0]: row.split() for row in text[text.index("pair ") :].splitlines()[1:]}
    # Rates and tokens a turn of head_dim 128, theta 1,000,000; scaled ones of YaRN 4.0 from 32,768.
    assert rows["1"][1:3] == ["0.8058", "7.8"]
    assert rows["16"][1:3] == ["0.03162", "199"]
    assert rows["48"][1:3] == ["3.162e-05", "198,692"]
    assert rows["63"][1:4] == ["1.241e-06", "5,063,256", "3.102e-07"]
    assert "24 of 64 never complete a turn in the trained context" in text


def test_the_plot_is_no_wider_than_a_narrow_terminal() -> None:
    lines = render(wavelength_plot(records.qwen3_rope()), 80).splitlines()
    assert len(lines) == 13
    assert max(map(len, lines)) <= 80
    assert lines[0].endswith("○○○○")


def test_without_scaling_there_are_no_scaled_columns() -> None:
    table = records.qwen3_rope()
    same = tuple(
        replace(pair, scaled_rate=pair.rate, scaled_wavelength=pair.wavelength, ratio=1.0)
        for pair in table.pairs
    )
    plain = replace(table, pairs=same, touched=(), decision=records.UNSCALED, context_len=32768)
    text = render(rope_page(plain))
    assert "no pair is changed" in text
    assert "scaled rate" not in text
    assert "○" not in text


def test_a_scaling_that_the_headers_do_not_tell_is_unknown_not_one() -> None:
    table = records.qwen3_rope()
    unknown = tuple(
        replace(pair, scaled_rate=None, scaled_wavelength=None, ratio=None) for pair in table.pairs
    )
    text = render(rope_page(replace(table, pairs=unknown, attention_factor=None)))
    assert "1.0000" not in text
    assert "attention factor" not in text
