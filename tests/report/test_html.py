"""The HTML report: complete, self-contained, and nothing of the user's becomes markup."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest
from tests.cli import records

from ropewalk.findings import Finding
from ropewalk.measuring.records import Measurement
from ropewalk.planner.records import Decode, Prefill, PromptWork
from ropewalk.report.html import measurement_html
from ropewalk.report.markup import Markup, element, join
from ropewalk.report.speed import planned_curve
from ropewalk.report.svg import Line, line_plot

_VOID = {"meta"}
ATTACK = "<script>alert(1)</script>\"'&</style>"


class Document(HTMLParser):
    """Tags with their attributes, and the text; a tag that is not closed in order is an error."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.text.append(data.strip())


@pytest.fixture(scope="module")
def run() -> Measurement:
    return records.smollm2_measurement()


def test_the_document_is_well_formed_and_says_what_was_measured(run: Measurement) -> None:
    document = Document(measurement_html(run))
    assert run.comparison is not None
    for words in (run.checkpoint, run.comparison.verdict, "YaRN 1.5 (12,288)", "11,878", "270.00 MiB"):
        assert words in document.text
    assert any("refused" in words for words in document.text)
    assert "llama-server -m SmolLM2-135M-Instruct.Q4_1.gguf -c 12288 -np 1" in document.text


def test_nothing_is_loaded_from_elsewhere_and_nothing_runs(run: Measurement) -> None:
    source = measurement_html(run)
    document = Document(source)
    tags = {tag for tag, _ in document.tags}
    assert tags.isdisjoint({"script", "link", "img", "iframe", "object"})
    assert not [attrs for _, attrs in document.tags if {"href", "src", "onload"} & set(attrs)]
    assert "url(" not in source
    assert "http" not in source
    assert "@import" not in source


def test_every_square_has_its_symbol_and_its_words(run: Measurement) -> None:
    document = Document(measurement_html(run))
    squares = [attrs for tag, attrs in document.tags if tag == "rect" and attrs.get("rx")]
    assert len(squares) == 2 * 3 * 3 * 5  # a ground and a colour for 3 arms x 3 lengths x 5 depths
    assert "at 75%: 1 wrong value" in document.text
    assert "at 0%: 1 refused by the server" in document.text


def test_trials_that_disagree_show_their_count(run: Measurement) -> None:
    mixed = replace(run.arms[0], cells=(records.cell(1945, 0.5, "##."),))
    document = Document(measurement_html(replace(run, arms=(mixed,))))
    assert "2/3" in document.text
    assert "at 50%: 2 hit, 1 miss" in document.text


def test_text_of_the_user_is_escaped_everywhere(run: Measurement) -> None:
    arm = replace(run.arms[0], label=ATTACK, findings=(Finding("x", "error", ATTACK),))
    assert run.comparison is not None
    hostile = replace(
        run,
        checkpoint=ATTACK,
        run_id=ATTACK,
        arms=(arm,),
        comparison=replace(run.comparison, verdict=ATTACK),
        settings={ATTACK: ATTACK},
    )
    source = measurement_html(hostile)
    assert "<script" not in source
    document = Document(source)
    assert document.text.count(ATTACK) >= 5
    assert {tag for tag, _ in document.tags}.isdisjoint({"script"})


def test_a_run_without_anything_still_gives_a_page(run: Measurement) -> None:
    empty = replace(run, status="interrupted", arms=(), comparison=None, findings=(), settings={})
    document = Document(measurement_html(empty))
    assert "The arms were not compared." in document.text


def test_only_elements_pass_unescaped() -> None:
    inner = element("b", "<&>")
    assert inner == "<b>&lt;&amp;&gt;</b>"
    assert element("p", inner, "<i>") == "<p><b>&lt;&amp;&gt;</b>&lt;i&gt;</p>"
    assert join([f"{inner}"]) == "&lt;b&gt;&amp;lt;&amp;amp;&amp;gt;&lt;/b&gt;"  # a new string is text again
    assert isinstance(inner, Markup)


def test_attributes_are_escaped_and_numbers_are_short() -> None:
    assert element("a", title='"<', class_="c", x=1.50, y=2.0, z=None) == (
        '<a title="&quot;&lt;" class="c" x="1.5" y="2"></a>'
    )


def test_the_fitted_curve_is_drawn_through_the_measured_shapes(run: Measurement) -> None:
    document = Document(measurement_html(run))
    (lines,) = [[attrs["d"] or "" for tag, attrs in document.tags if tag == "path"]]
    assert [path.count("L") for path in lines] == [1, 40, 40]  # two lengths are no curve: a straight line
    fit = run.arms[1].speed_fit
    assert fit is not None
    share = f"{fit.attention_share:.0%} of the time at 11,878"
    assert f"{share}, 38% of the work" in document.text  # 15 of 40 FLOPs planned
    assert len([1 for tag, attrs in document.tags if attrs.get("class") == "spot"]) == 2 + 3 + 3 + 3  # legend


def test_what_the_plan_counts_is_drawn_beside_the_measured(run: Measurement) -> None:
    """Twice the length, three times the operations: two thirds of the rate."""
    first = run.arms[0].speed[0]
    work = (
        PromptWork(first.length, Prefill(200, 200, 100), Decode(1, 1)),
        PromptWork(2 * first.length, Prefill(400, 1000, 500), Decode(1, 1)),
    )
    arm = replace(run.arms[0], work=work, speed=(first, replace(first, length=2 * first.length)))
    rates = [rate for _, rate in planned_curve(arm)]
    assert rates == pytest.approx(
        [first.length / first.prefill_seconds, 2 * first.length / first.prefill_seconds / 3]
    )
    assert planned_curve(replace(arm, work=work[:1])) == ()  # one length is no line
    document = Document(measurement_html(replace(run, arms=(arm,))))
    assert len([attrs for tag, attrs in document.tags if attrs.get("class") == "line plan"]) == 1


def test_a_plot_starts_at_zero_and_names_its_axes() -> None:
    lines = [Line("a", ((1000, 380.0), (8000, 180.0)))]
    document = Document(f"<main>{line_plot(lines, x_title='tokens', y_title='speed')}</main>")
    labels = [text for text in document.text if text]
    assert labels[0] == "speed over tokens"
    assert labels[1:6] == ["0", "100", "200", "300", "400"]
    assert {"1,000", "8,000"} <= set(labels)
