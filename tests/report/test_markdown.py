"""Markdown of a run: a table that stays a table whatever the names are."""

from __future__ import annotations

from dataclasses import replace

from tests.cli import records

from ropewalk.report.markdown import markdown, measurement_markdown
from ropewalk.report.page import Verbatim


def test_the_verdict_and_the_recall_table() -> None:
    text = measurement_markdown(records.smollm2_measurement())
    lines = text.splitlines()
    assert lines[0] == "### Recall of SmolLM2-135M-Instruct.Q4\\_1.gguf at 12,288 tokens"
    assert lines[2].startswith("**for 11,878 tokens YaRN 1.5: 3 of 5 against 0 of 5")
    assert "| 11,878 | `– – – – –` refused | `· ■ ■ x ■` 3/5 23–88% | `· · · · ·` 0/5 0–43% |" in lines


def test_names_cannot_break_the_table() -> None:
    run = records.smollm2_measurement()
    hostile = replace(run, arms=(replace(run.arms[0], label="a | b\n| c <i>"),))
    rows = [line for line in measurement_markdown(hostile).splitlines() if line.startswith("| tokens")]
    assert rows == [r"| tokens | a \| b \| c \<i\> (8,192) |"]


def test_a_fence_is_longer_than_those_inside() -> None:
    text = "serve 'a\n````\n<script>'"
    assert "\n".join(markdown(Verbatim(text))) == f"`````\n{text}\n`````"
